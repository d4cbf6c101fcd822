"""Records of what is chosen, printed and exported, and what compares a tree with them."""
