"""Three-way merge of tables and patches by cell, and the programs that git runs for it."""
