"""Messages to text, by the model's own template. Pure text: no I/O, no processes, no llama.cpp."""
