"""Passes of our own on lowered modules; `transforms.pipeline` puts them among TVM's."""
