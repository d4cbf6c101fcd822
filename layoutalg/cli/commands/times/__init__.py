"""Commands about times: measured, searched for, and drawn.

bench       kernels timed beside the libraries, and what was predicted
conditions  the state the GPU was in while a bench ran
predictions the steps of a product's ladder, predicted
tune        candidates timed, kept in a store, and locked in a file
stores      a store of timings: show, merge, export, lock, fit and replay
chart       rates of a bench over size, as a picture
roofline    the bounds of a tiled product at each level of memory
measured    what bench --json has printed, for charts and rooflines
"""
