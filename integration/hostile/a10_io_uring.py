# A10: io_uring would carry system calls past the filter; runtimes fall back on ENOSYS.
refused("io_uring_setup", 425, 8, ctypes.create_string_buffer(120), want=("ENOSYS",))
refused("io_uring_enter", 426, 0, 0, 0, 0, 0, 0, want=("ENOSYS",))
refused("io_uring_register", 427, 0, 0, 0, 0, want=("ENOSYS",))
