"""Rules that a response must follow and that a program can check: IFEval's and IFBench's."""
