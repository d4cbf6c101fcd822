"""The sectors that all requests of accesses touch together, and the bytes that memory moves for them.

units      sectors, half lines and lines that are touched and filled: the definition, and from nested strides
dram       dram_of: bytes that memory reads and writes
"""
