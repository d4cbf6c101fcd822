"""Problems, layouts, programs and calls drawn from a seed."""
