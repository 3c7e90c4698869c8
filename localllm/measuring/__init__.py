"""What measuring this machine has in common: the key, the file, the statistics and the child process of a measurement.

    selftest.json     which CPU backend works, and the fastest      `llama/probes/selftest`, in a child
    speed.json        speed of this CPU for each tensor type        `llama/probes/speed_probe_child`, in a child
    attention.json    whether flash attention is faster             `worker/attention`, on the model of a worker
    tuned/*.json      the fastest settings of a model               `tuning/`, in workers; records of `planning/tuned`
    (no file)         the fastest number of threads                 `engine/threads/trials`, between steps

The last three start no child of their own: a loaded model can be neither loaded twice nor handed over, and the worker
that has it contains their crashes. Knows nothing of what is measured. Begin with `conditions`.
"""
