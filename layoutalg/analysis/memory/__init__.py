"""What all requests of accesses touch together, and what memory moves for it.

units      sectors, half lines and lines that are touched and filled: the definition, and from nested strides
dram       dram_of: bytes that memory reads and writes
"""
