"""Commands for finding one's way: what is installed, what is on disk, what words mean, and one guided run.

doctor      what is installed, what works without it, and how to get the rest
cache       doctor cache: the compiled kernels on disk
words       help: the commands, one of them, and what the words of reports and certificates mean
demo        doctor demo: the whole way from a layout to a verified kernel, in one guided run
"""
