"""Tile programs that tests share: right ones, edits that plant a mistake in one, and their mistakes.

simt            plain accesses and cp.async
boxes           copies of boxes by TMA, written out in records
one_block       copies, barriers and roles of one block
clusters        shared memory of peers, multicast
warpgroups      products of wgmma
edits           one statement that is left out, moved, or has another operand
mistakes        the right programs' mistakes, and what is said of each
"""
