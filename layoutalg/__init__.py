"""layoutalg: analyse, generate and prove GPU memory layouts."""
