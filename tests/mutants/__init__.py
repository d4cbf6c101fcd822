"""Small mistakes in programs, texts, syntheses and the source itself, and what finds each of them."""
