"""Instructions that cost the same are counted once: residues, footprints and guards.

footprint     Footprint: an access composed with a layout, as a handful of strides
classes       digit classes: warps sorted by where their digits carry
guarded       digit classes of an access with a Guard: predicated edges are extra classes
straddling    loops and thread counts that the shape of a tile does not divide
residues      choices of digits counted by where they lead modulo a period
intervals     digits whose weighted sum lies in an interval
"""
