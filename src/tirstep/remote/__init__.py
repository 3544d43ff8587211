"""This machine's devices for others: TVM's RPC server, kept alive."""
