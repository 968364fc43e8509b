# B9: no file handle leads past the directories above it.
refused("name_to_handle_at", nr(303, 264), -100, b"/", ctypes.create_string_buffer(struct.pack("=Ii", 128, 0), 136), ctypes.create_string_buffer(4), 0)
root = os.open("/", os.O_RDONLY)
for inode in (2, 128, 256):
    handle = ctypes.create_string_buffer(struct.pack("=IiII", 8, 1, inode, 0), 16)
    refused("open_by_handle_at %d" % inode, nr(304, 265), root, handle, os.O_RDONLY)
