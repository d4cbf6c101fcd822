"""Commands that answer yes or no, with a reason.

check       whether a function of a user's own is a layout
legal       whether the hardware accepts a request
ci          a file of checks, with the outcomes in the form that a CI reads
"""
