"""Instructions that cost the same are counted once: residues, footprints and guards."""
