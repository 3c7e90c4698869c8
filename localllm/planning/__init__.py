"""What a load will need and how fast it will be: layers per device, contexts, memory, drafts, speeds.

Pure functions of headers, options and snapshots of devices; nothing here loads a model or knows a process of one.
Begin with `plan`."""
