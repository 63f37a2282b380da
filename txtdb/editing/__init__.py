"""Programs that change files of a database: into canonical form, or by one cell."""
