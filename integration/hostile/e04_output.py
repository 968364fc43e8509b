# E4: endless output meets the output cap.
while 1:
    print("A" * 65536)
