"""One page of scores for people who were not there: `gather` asks the daemon, `facts` says what the page knows, `plots`
draws, and `page` writes the one file, which needs no network and runs nothing but its own script."""
