"""The rows of MMA and copy atoms, one file per architecture."""
