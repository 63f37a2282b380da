"""What people and programs look at: one table as grids, one lookup explained, one flat table, a schema in short."""
