"""Files of training rows, each with its lineage and its card.

`training_row` and `lineage` say what a row is, `row_format` and its neighbours spell it, `row_files` writes a file with
what stands beside it, `verify` checks it; `piped_rows` is how both are reached from the command line.
The same rows, card and versions of msgspec and pyarrow give the same bytes.
"""
