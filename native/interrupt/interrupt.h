// Ends a llama_decode early: the C ABI of a ggml abort callback, which the CPU backend calls after every node of a graph.
// Native code, because a Python callback would take the GIL each time. Used from Python with ctypes
// (localllm/llama/interrupts.py).
#ifndef LOCALLLM_INTERRUPT_H
#define LOCALLLM_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

#if defined(_WIN32)
#define LI_API __declspec(dllexport)
#else
#define LI_API __attribute__((visibility("default")))
#endif

#define LI_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

typedef struct li_state li_state;
typedef int32_t (*li_pos_max)(void *memory, int32_t sequence); // llama_memory_seq_pos_max

LI_API int32_t li_abi(void);
LI_API li_state *li_create(void *memory, li_pos_max pos_max);
LI_API void li_destroy(li_state *state);

// From any thread: the decode that listens, or the next one, ends with its current ubatch, at the latest after that many
// seconds. An earlier requested end stays in effect.
LI_API void li_interrupt(li_state *state, double within_s);
// Before a decode: discards requests made so far.
LI_API void li_clear(li_state *state);
// Enclose a decode of these sequences, which may be interrupted, and is interrupted after that many seconds. Decodes
// outside are never interrupted.
LI_API void li_begin(li_state *state, const int32_t *sequences, int32_t num_sequences, double within_s);
LI_API void li_end(li_state *state);

// How long the ubatch that the last interrupted decode lost had been running.
LI_API int64_t li_lost_ns(const li_state *state);

// Number of nodes computed over all decodes; callable from any thread.
LI_API int64_t li_num_nodes(const li_state *state);
// For tests: the listening decode ends after that many nodes.
LI_API void li_stop_after(li_state *state, int64_t num_nodes);

// The callback; `state` is an li_state.
LI_API bool li_should_stop(void *state);

#ifdef __cplusplus
}
#endif
#endif
