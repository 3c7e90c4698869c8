"""The keywords of single types, rewritten; what applies to every type is in the folder above. Begin with `objects`."""
