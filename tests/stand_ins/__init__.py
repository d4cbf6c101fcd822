"""What stands in for a GPU, a compiler or a library, and what makes each fail."""
