"""The command line: the verbs' registry, parser and client, and what several verbs share."""
