"""Reading what each harness writes, by the parser that its manifest names."""
