"""The node agent: one zipapp, standard library and NVML bindings only, Python 3.8 or later."""
