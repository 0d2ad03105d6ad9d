"""Jobs on the console: columns, pages, and what is done to them."""
