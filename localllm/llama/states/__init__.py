"""What slots hold, as bytes: saved states, the memory that they are saved into, and what a memory can drop."""
