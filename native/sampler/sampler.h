// The batch sampler's C ABI: logits rows in, one token each out. Used from Python with ctypes (localllm/engine/sampling/native.py),
// which mirrors these structs field by field. localllm/engine/sampling/sampler.py computes the same in NumPy, bit for bit.
#ifndef LOCALLLM_SAMPLER_H
#define LOCALLLM_SAMPLER_H

#include <stdint.h>

#if defined(_WIN32)
#define LS_API __declspec(dllexport)
#else
#define LS_API __attribute__((visibility("default")))
#endif

#define LS_ABI 4
#define LS_MAX_TOP 20

// Returned in place of a token:
#define LS_FORBIDDEN (-1)       // without a mask: the biases forbid every token with a finite logit
#define LS_NOT_FINITE (-2)      // the row contains NaN or +infinity, or no finite number
#define LS_NOTHING_ALLOWED (-3) // the mask and the biases allow no token with a finite logit

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    float temperature;         // 0: the likeliest token
    float dynatemp_range;      // 0: off; otherwise the temperature follows the entropy within this distance
    float dynatemp_exponent;
    float typical_p;           // 1: off
    float top_p;               // 1: off
    float min_p;               // 0: off
    float top_n_sigma;         // 0: off
    float xtc_probability;     // 0: off
    float xtc_threshold;       // above 0.5: off
    float repeat_penalty;      // 1: off
    float presence_penalty;    // 0: off
    float frequency_penalty;   // 0: off
    float mirostat_tau;        // target surprise, in bits
    float mirostat_eta;        // learning rate
    float mirostat_mu;         // its state: from the last result, initially 2 * tau
    int32_t mirostat;          // 0: off; 1, 2: version
    int32_t top_k;             // 0: off
    int32_t num_top;           // log-probabilities to report besides the chosen token's; -1: none at all
    uint64_t seed;
    uint64_t draw;             // number of tokens drawn before; seed and draw alone determine the randomness
    const int32_t * repeated;  // distinct tokens for repeat_penalty
    const int32_t * counted;   // distinct tokens for presence_penalty and frequency_penalty
    const int32_t * counts;    // how often each of those occurs
    const int32_t * biased;    // distinct tokens with a bias
    const float * biases;      // -infinity forbids a token
    const int32_t * lessened;  // distinct tokens
    const float * less;        // subtracted from their logits after the penalties
    const uint32_t * mask;     // bit i % 32 of word i / 32: token i is allowed; NULL: all are. Bits beyond the last token are ignored
    int32_t num_repeated;
    int32_t num_counted;
    int32_t num_biased;
    int32_t num_lessened;
} ls_params;

typedef struct {
    int32_t token;             // or the reason why there is none
    float logprob;             // of the model's own distribution, before mask and parameters; the top ones too, over all tokens
    float mirostat_mu;         // for the next token
    int32_t num_top;           // fewer than requested if fewer tokens have nonzero probability
    int32_t top[LS_MAX_TOP];
    float top_logprobs[LS_MAX_TOP];
} ls_result;

LS_API int32_t ls_abi(void);

// GOMP_parallel of the OpenMP runtime whose threads compute the model: calls work(data) on `num_threads` threads. After a
// decode these still spin, one per core, so any other thread would have to share a core with one of them.
typedef void (*ls_team)(void (*work)(void *), void * data, unsigned num_threads, unsigned flags);

// Rows are float32 [vocab]. Uses `threads` threads of the team, or its own if there is none (NULL).
LS_API void ls_sample(int32_t num_rows, const float * const * rows, int32_t vocab, const ls_params * const * params,
                      ls_result * results, int32_t threads, ls_team team);

#ifdef __cplusplus
}
#endif
#endif
