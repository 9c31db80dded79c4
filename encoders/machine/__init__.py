"""What the machine lends to this process: cores, memory, and the device that runs graphs."""
