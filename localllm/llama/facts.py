"""Everything that localllm knows of one llama.cpp build without asking it: the list to go through when upstream moves.

`docs/llama-cpp.md` shows it; `tests/meta/test_llama_cpp.py` finds what is not listed. Plain data: nothing is loaded.
"""

from __future__ import annotations

from localllm.llama.fact_kinds import Fact

_HEADERS = "test_upstream.py::test_numbers_are_those_of_the_headers"
_BINDINGS = "test_upstream.py::test_numbers_are_those_of_the_bindings"
_STRUCTS = "test_upstream.py::test_structs_written_by_hand_are_those_of_every_build"
_BUILD = "test_upstream.py::test_the_description_of_the_build_is_that_of_the_headers_that_come_with_it"
_TEXTS = "test_upstream.py::test_texts_that_are_searched_are_in_the_library"
_NAMES = "test_upstream.py::test_listed_architectures_are_known_to_the_library"
_KV = "test_kv_planning.py::test_the_plan_is_what_llama_cpp_allocates"
_BUFFERS = "test_buffer_planning.py::test_a_model_of_real_size_takes_what_is_planned"
_DEVICES = "test_device_planning.py::test_a_small_model_takes_on_each_device_what_is_planned"
_QUANTIZE = "test_quantize.py::test_every_type_is_taken_or_refused_as_the_table_says"

FACTS: tuple[Fact, ...] = (
    Fact(
        "function", "C++ functions for NextN layers, EAGLE-3 and DFlash, by mangled names",
        ("localllm.llama.drafts.next_symbols:_NAMES", "localllm.llama.drafts.next_symbols:_LAYER_NAMES",
        "localllm.llama.drafts.next_symbols:_REQUIRED"), "src/llama-ext.h, src/llama-batch.cpp",
        ("test_upstream.py::test_functions_by_mangled_name_are_there",
        "test_heads.py::test_a_library_without_the_functions_is_found_out"), "feature off",
    ),
    Fact(
        "function", "ggml's registry of backends and devices; its operations, for measuring kernels",
        ("localllm.llama.devices:_SIGNATURES", "localllm.llama.alignment:_SIGNATURES",
        "localllm.llama.probes.speed_graph:_SIGNATURES"), "ggml/include/ggml-backend.h, ggml/include/ggml.h",
        ("test_library.py::test_devices_have_names_and_memory_and_unknown_names_are_refused",
        "test_speed_probe.py::test_the_figures_are_those_of_a_cpu"), "refused",
    ),
    Fact(
        "function", "functions of backends by name: NUMA, splitting by rows, threads, extra buffer types, RPC",
        ("localllm.llama.devices:Ggml", "localllm.llama.probes.speed_graph:Cpu",
        "localllm.llama.remote.devices:connect", "localllm.llama.remote.devices:serve"),
        "ggml/include/ggml-backend.h, ggml/src/ggml-cpu/ggml-cpu.cpp, ggml/src/ggml-rpc/ggml-rpc.cpp",
        ("test_speed_probe.py::test_the_figures_are_those_of_a_cpu", _TEXTS), "feature off",
        ("ggml_backend_cpu_is_numa", "ggml_backend_set_n_threads", "ggml_backend_dev_get_extra_bufts"),
    ),
    Fact(
        "function", "C functions whose addresses native code of localllm calls",
        ("localllm.llama.tokens.grammar_tokens:read_pieces", "localllm.llama.tokens.grammar_tokens:_Tokenize",
        "localllm.llama.interrupts:Interrupt"), "include/llama.h",
        ("test_grammar_tokens.py::test_the_compiled_way_reads_what_the_slow_one_does",
        "test_interrupts.py::test_a_prompt_interrupted_at_random_nodes_has_the_logits_of_one_that_was_not"), "crash",
    ),
    Fact(
        "table", "the function for the alignment of a buffer type", ("localllm.llama.alignment:_TABLE",
        "localllm.llama.vtables:slots", "localllm.llama.vtables:replace"),
        "ggml/src/ggml-backend-impl.h (ggml_backend_buffer_type_i)",
        ("test_alignment.py::test_it_is_so_from_loading_on_with_amx_and_is_taken_back_at_exit",
        "test_alignment.py::test_another_structure_is_left_as_it_was"), "slower",
    ),
    Fact(
        "table", "places 0, 2 and 3 of a device: its name, memory and type",
        ("localllm.llama.remote.devices:_GET_NAME",), "ggml/src/ggml-backend-impl.h (ggml_backend_device_i)",
        ("test_rpc_memory.py::test_the_cpu_reports_what_the_system_can_give_until_it_is_taken_back",
        "test_rpc_memory.py::test_another_table_is_left_as_it_was"), "wrong plan",
    ),
    Fact(
        "function", "libmtmd: functions, where its context has its number of threads, pictures placed by the prompt",
        ("localllm.llama.media.opening:DEFAULTS", "localllm.llama.media.projector:Projector", "localllm.llama.media."
        "projector:Chunks", "localllm.llama.media.projector:THREADS_MARK", "localllm.llama.media.projector:"
        "CONTEXT_BYTES", "localllm.llama.media.projector:NUM_LEADING", "localllm.llama.media.projector:NUMBERED"),
        "tools/mtmd/mtmd.h, tools/mtmd/mtmd.cpp",
        ("test_projector.py::test_a_picture_has_the_layout_of_its_size_and_rows_whatever_the_threads",
        "test_media_places.py::test_random_conversations_have_libmtmds_logits_fresh_cached_and_restored"),
        "feature off",
    ),
    Fact(
        "struct", "properties of a device, override of a tensor's buffer, parameters of a ggml context",
        ("localllm.llama.layouts:DeviceProperties", "localllm.llama.layouts:BufferOverride",
        "localllm.llama.layouts:InitParams"), "ggml/include/ggml-backend.h, ggml.h, include/llama.h", (_STRUCTS,),
        "crash",
    ),
    Fact(
        "struct", "every other struct and signature, from each build's headers",
        ("localllm.types.libraries.builds:Build",), "include/llama.h, src/llama-ext.h, ggml/include",
        ("test_upstream.py::test_structs_and_signatures_in_use_are_those_of_the_loaded_build", _BUILD), "refused",
    ),
    Fact(
        "struct", "defaults of the parameters of models and contexts, by which another layout is noticed",
        ("localllm.llama.layouts:CONTEXT", "localllm.llama.layouts:MODEL"),
        "src/llama-context.cpp, src/llama-model.cpp (..._default_params)",
        ("test_runtimes.py::test_structs_with_a_field_more_are_noticed_and_resembled_ones_found",
        "test_selftest.py::test_the_real_library_passes_and_is_remembered_without_being_loaded_here"), "refused",
    ),
    Fact(
        "number", "kinds of devices", ("localllm.llama.devices:CPU",), "ggml/include/ggml-backend.h", (_HEADERS,),
        "wrong plan",
    ),
    Fact(
        "number", "levels of the log", ("localllm.llama.log:DEBUG",), "ggml/include/ggml.h", (_HEADERS,),
        "worse message",
    ),
    Fact(
        "number", "statuses of llama_decode", ("localllm.llama.interrupts:ABORTED",
        "localllm.llama.context:_DECODE_STATUS"), "include/llama.h",
        ("test_interrupts.py::test_who_asks_from_another_thread_ends_a_decode_and_only_one_that_listens",),
        "wrong result",
    ),
    Fact(
        "number", "no flags: a whole state", ("localllm.llama.states.saved:WHOLE",), "include/llama.h", (_BINDINGS,),
        "wrong result",
    ),
    Fact(
        "number", "types of files, of pooling, most devices, the seed that means any",
        ("localllm.types.upstream:FILE_TYPES", "localllm.types.upstream:GUESSED_FILE_TYPE",
        "localllm.types.upstream:POOLING_TYPES", "localllm.types.upstream:MAX_DEVICES",
        "localllm.types.upstream:DEFAULT_SEED"), "include/llama.h", (_BINDINGS,), "wrong result",
    ),
    Fact(
        "number", "limits of names, servers, layers, experts", ("localllm.types.upstream:MAX_TENSOR_NAME_BYTES",
        "localllm.types.upstream:MAX_RPC_SERVERS", "localllm.types.upstream:MAX_LAYERS", "localllm.types.upstream:"
        "MAX_EXPERTS", "localllm.gguf.info:_ROPE_SCALINGS"), "ggml.h, ggml-rpc.h, src/*.h", (_HEADERS,), "refused",
    ),
    Fact(
        "number", "types of tensors, their names and blocks", ("localllm.gguf.tables:BLOCK_TYPES",),
        "ggml/include/ggml.h, ggml/src/ggml-common.h", ("test_upstream.py::test_blocks_of_tensors_are_those_of_ggml",),
        "refused",
    ),
    Fact(
        "text", "on which device each layer is", ("localllm.llama.log_text:LAYER",),
        "src/llama-model.cpp (load_tensors)", ("test_backend.py::test_layers_are_reported_where_llama_cpp_put_them",
        _TEXTS), "refused", ("layer %3d assigned to device %s,",),
    ),
    Fact(
        "text", "an architecture that the library does not know", ("localllm.llama.log_text:UNKNOWN_ARCHITECTURE",),
        "src/llama-model.cpp", ("test_backend.py::test_an_architecture_that_the_library_does_not_know_is_named",
        _TEXTS), "worse message", ("unknown model architecture: '",),
    ),
    Fact(
        "text", "which tensors an override moved", ("localllm.llama.log_text:MOVED",), "src/llama-model-loader.cpp",
        (_TEXTS,), "refused", (") buffer type overridden to %s", "tensor %s (%zu MiB %s)"),
    ),
    Fact(
        "text", "weights that could not be locked, or were read through a buffer", ("localllm.llama.log_text:UNLOCKED",
        "localllm.llama.log_text:BUFFERED"), "src/llama-mmap.cpp",
        ("test_spread.py::test_a_lock_that_the_system_refuses_is_an_error_that_says_how_to_raise_the_limit", _TEXTS),
        "feature off", ("failed to mlock %zu-byte buffer", "Falling back to buffered I/O"),
    ),
    Fact(
        "text", "a device that ran out of memory", ("localllm.llama.log_text:SHORTAGE",),
        "src/llama-model.cpp, src/llama-kv-cache.cpp, ggml/src/ggml-alloc.c, ggml/src/ggml-cuda, ggml/src/ggml-vulkan",
        ("test_placement.py::test_out_of_memory_means_fewer_layers_once_and_the_model_says_so", _TEXTS),
        "worse message", ("unable to allocate %s buffer", "failed to allocate %s buffer of size"),
    ),
    Fact(
        "text", "flash attention was given up", ("localllm.llama.log_text:NO_FLASH",), "src/llama-context.cpp",
        (_TEXTS,), "slower", ("flash_attn is not compatible with Grok - forcing off", "Flash Attention"),
    ),
    Fact(
        "text", "sizes of a context laid out without weights",
        ("localllm.llama.log_text:STORED", "localllm.llama.log_text:COMPUTED"), "src/llama-kv-cache.cpp",
        ("test_dry_loads.py::test_without_formulas_a_dry_load_plans", _TEXTS), "wrong plan", ("size = %7.2f MiB (%6u",),
    ),
    Fact(
        "text", "whether keys were rotated before they were quantized", ("localllm.llama.log_text:ROTATION",),
        "src/llama-kv-cache.cpp", ("test_kv_reuse.py::test_quantized_keys_move_if_llama_cpp_can_turn_them", _TEXTS),
        "feature off", (", n_embd_head_k_all = %d",),
    ),
    Fact(
        "text", "progress, size and reasons of a quantization", ("localllm.llama.log_text:QUANTIZING", "localllm.llama."
        "log_text:CONVERTED", "localllm.llama.log_text:QUANTIZED_SIZE", "localllm.llama.log_text:OTHER_TYPES",
        "localllm.llama.log_text:NEEDS_IMPORTANCE", "localllm.llama.log_text:NOT_QUANTIZED"), "src/llama-quant.cpp",
        ("test_quantize.py::test_rows_that_a_type_does_not_divide_are_told", _QUANTIZE,
        "test_quantize.py::test_progress_grows_to_the_whole", _TEXTS), "refused", ("quant size  = %8.2f MiB",
        "of %d tensor(s) required fallback", "require an imatrix", "no tensor type fallback", "failed to quantize: "),
    ),
    Fact(
        "text", "why a backend's file does not load", ("localllm.llama.library:_load_backend",),
        "ggml/src/ggml-backend-reg.cpp",
        ("test_runtimes.py::test_a_backend_whose_driver_is_missing_is_kept_and_says_so_wherever_it_is_looked_at",
        _TEXTS), "worse message", ("%s: failed to load %s",),
    ),
    Fact(
        "graph", "the last layer's normalized output", ("localllm.llama.hidden:NODE",), "src/models/*.cpp",
        ("test_embedding.py::test_without_the_output_head_vectors_are_the_same", _TEXTS), "slower", ("result_norm",),
    ),
    Fact(
        "graph", "the output of each layer, for timing a part of a model",
        ("localllm.llama.probes.flash_attention_probe:Probe",), "src/models/*.cpp",
        ("test_attention.py::test_a_cache_is_filled_by_a_node_a_chunk_and_large_models_are_computed_in_part", _TEXTS),
        "slower", ("l_out",),
    ),
    Fact(
        "rule", "what each layer stores per token and slot", ("localllm.gguf.rules.memory:layer_memory",
        "localllm.gguf.rules.memory:sliding_window", "localllm.gguf.rules.memory:attention_memory",
        "localllm.planning.plan:memory_bytes", "localllm.planning.plan:CTX_STEP"),
        "src/llama-model.cpp (create_memory), src/llama-hparams.cpp, src/llama-kv-cache*.cpp", (_KV,), "wrong plan",
    ),
    Fact(
        "rule", "sizes of compute buffers", ("localllm.planning.buffers:compute_bytes",
        "localllm.planning.buffers:head_bytes", "localllm.planning.buffers:encoder_bytes",
        "localllm.planning.buffers:RECURRENT_WIDTHS"), "src/llama-graph.cpp, ggml/src/ggml-alloc.c", (_BUFFERS,
        "test_buffer_planning.py::test_embedding_takes_what_is_planned"), "wrong plan",
    ),
    Fact(
        "rule", "buffers and copies of devices that work in a pipeline", ("localllm.types.upstream:SCHEDULER_COPIES",
        "localllm.planning.encoders:FIRST_COPIES", "localllm.planning.placing:place"), "ggml/src/ggml-backend.cpp",
        (_DEVICES,), "wrong plan",
    ),
    Fact(
        "rule", "how layers are divided over devices", ("localllm.planning.placing:divided",
        "localllm.gguf.rules.products:LOOKED_UP_BY_TOKEN"), "src/llama-model.cpp (load_tensors), src/llama-arch.cpp",
        ("test_device_planning.py::test_layers_are_on_two_devices_as_they_were_planned",), "wrong plan",
    ),
    Fact(
        "rule", "rows of logits and vectors that a context makes room for", ("localllm.planning.plan:MORE_OUTPUTS",
        "localllm.planning.nextn_heads:heads_bytes"), "src/llama-context.cpp (output_reserve)",
        ("test_outputs.py::test_what_is_planned_for_logits_is_what_llama_cpp_makes_room_for",
        "test_kv_planning.py::test_the_plan_of_heads_is_what_llama_cpp_allocates"), "wrong plan",
    ),
    Fact(
        "rule", "what a memory can drop of its end", ("localllm.llama.states.tails:Tails",),
        "src/llama-kv-cache.cpp (find_slot, apply_ubatch), src/llama-memory-recurrent.cpp",
        ("test_kv_reuse.py::test_a_memory_that_cannot_lose_a_tail_goes_back_to_a_checkpoint",
        "test_rollback.py::test_rows_are_taken_back_as_if_they_had_never_been"), "crash",
    ),
    Fact(
        "rule", "how a batch is split into ubatches", ("localllm.llama.states.padding:fillers",
        "localllm.engine.scheduling.cost:passes"), "src/llama-batch.cpp (split_equal)",
        ("test_kv_reuse.py::test_slots_with_idle_ones_between_them_answer_alike_and_leave_those_as_they_were",),
        "slower",
    ),
    Fact(
        "rule", "when copies move, and which cells of a unified cache are in use",
        ("localllm.engine.cache.pending_copies:PendingCopies", "localllm.engine.cache.unified_cells:CellPool"),
        "src/llama-kv-cache.cpp", ("test_copies.py::test_copies_without_a_decode_between_them",
        "test_kv_reuse.py::test_a_unified_cache_is_compacted_under_running_requests"), "wrong result",
    ),
    Fact(
        "rule", "special tokens in a text, and where a text may be cut",
        ("localllm.llama.tokens.special_tokens:SpecialTokens", "localllm.llama.tokens.text_cuts:TextCuts",
        "localllm.llama.tokens.tokenizing:TextTokenizer"), "src/llama-vocab.cpp",
        ("test_tokenizing.py::test_every_text_has_the_tokens_that_one_call_gives_it",), "wrong result",
    ),
    Fact(
        "rule", "tokens for filling in", ("localllm.gguf.rules.fill_in_middle:fills_in_middle",), "src/llama-vocab.cpp",
        ("test_fill_in_middle.py::test_the_prompt_is_prefix_suffix_middle_as_the_models_were_trained",), "feature off",
    ),
    Fact(
        "rule", "types in quantized files", ("localllm.gguf.rules.recipes:RECIPES",
        "localllm.gguf.rules.recipes:NARROW"), "src/llama-quant.cpp",
        ("test_retyping.py::test_rows_that_are_no_multiple_of_256_get_what_llama_cpp_takes_for_them",), "wrong plan",
    ),
    Fact(
        "rule", "types that can be written, or need an importance matrix", ("localllm.types.quantization:GROUPS",
        "localllm.llama.quantizing.coverage:ONLY_WITH_IMPORTANCE"), "src/llama-quant.cpp", (_QUANTIZE,), "refused",
    ),
    Fact(
        "rule", "repetitions in a GBNF grammar", ("localllm.types.upstream:MAX_GRAMMAR_REPEATS",
        "localllm.grammar.texts.gbnf:lark_of"), "src/llama-grammar.cpp",
        ("test_grammar_gbnf.py::test_grammars_take_what_llama_cpp_would_take",), "wrong result",
    ),
    Fact(
        "rule", "samplers", ("localllm.engine.sampling.sampler:SamplerParams", "localllm.engine.sampling.dry:Dry"),
        "src/llama-sampler.cpp", ("test_samplers.py::test_a_sampler_draws_what_llama_cpps_draws",
        "test_samplers.py::test_dry_penalizes_what_llama_cpps_does"), "wrong result",
    ),
    Fact(
        "rule", "what of a draft's file would end the process", ("localllm.gguf.rules.eagle:eagle",
        "localllm.gguf.rules.dflash:dflash", "localllm.gguf.rules.assistants:assistant",
        "localllm.gguf.rules.target_states:wrong_map", "localllm.planning.assistants:misfit"),
        "src/models/eagle3.cpp, dflash.cpp, gemma4-assistant.cpp",
        ("test_eagle.py::test_its_logits_are_those_of_the_formula",
        "test_dflash.py::test_its_guesses_are_those_of_the_formula",
        "test_assistant.py::test_its_logits_are_those_of_the_formula"), "crash",
    ),
    Fact(
        "rule", "what of an adapter's file would end the process, or be skipped without a word",
        ("localllm.gguf.adapters:TYPES", "localllm.gguf.adapters:UNSUPPORTED_BASES",
        "localllm.gguf.adapters:check_adapter"), "src/llama-adapter.cpp, src/llama-graph.cpp (build_lora_mm)",
        ("test_adapters.py::test_each_set_has_logits_of_its_own_and_none_are_those_without_adapters",
        "test_adapters.py::test_what_llama_cpp_would_refuse_skip_or_die_of_is_refused"), "crash",
    ),
    Fact(
        "architecture", "windows, recurrent layers, indexers and NextN layers, by name",
        ("localllm.gguf.rules.memory:_WINDOW_PERIODS", "localllm.gguf.rules.memory:_RECURRENT",
        "localllm.gguf.rules.memory:_HYBRID", "localllm.gguf.rules.memory:_NEXTN_APART",
        "localllm.gguf.rules.memory:_INDEXED"), "src/models/*.cpp, src/llama-arch.cpp", (_KV, _NAMES), "wrong plan",
    ),
    Fact(
        "graph", "the output of each layer, for control vectors", ("localllm.llama.adapters.steering:NODE",),
        "src/models/*.cpp", (
            "test_control_vectors.py::test_steer_make_keeps_it_under_its_name_and_says_what_is_wrong_with_pairs",
        ), "refused", ("l_out",),
    ),
    Fact(
        "rule", "order of matrices' rows in converted models, by architecture",
        ("localllm.registry.peft.architectures:PERMUTED", "localllm.registry.peft.architectures:UNCHANGED",
        "localllm.registry.peft.architectures:_REORDERED"), "conversion/*.py (modify_tensors, undo_permute)",
        ("test_peft.py::test_our_own_adapter_comes_back_to_the_bit",
        "test_peft.py::test_its_logits_are_those_of_pytorch_applied_and_merged"), "wrong result",
    ),
    Fact(
        "rule", "rows of pictures and sounds, and the encoders' buffers",
        ("localllm.gguf.rules.pictures:picture_rows",
        "localllm.gguf.rules.pictures:ANY_SIZE", "localllm.gguf.rules.sounds:sound_rows",
        "localllm.gguf.rules.encoder_buffers:picture_bytes", "localllm.gguf.projectors:_LAST",
        "localllm.gguf.rules.clip_keys:ClipKeys"), "tools/mtmd/clip.cpp, mtmd-image.cpp, mtmd-audio.cpp",
        ("test_encoder_buffers.py::test_encoders_of_real_widths_take_what_is_planned",
        "test_upstream.py::test_types_of_projectors_are_known_to_libmtmd"), "wrong plan",
    ),
    Fact(
        "rule", "rows that see each other", ("localllm.gguf.rules.pictures:NON_CAUSAL",
        "localllm.gguf.rules.pictures:CAUSAL_WIDTHS"), "tools/mtmd/mtmd.cpp (mtmd_decode_use_non_causal)",
        ("test_projector.py::test_a_picture_has_the_layout_of_its_size_and_rows_whatever_the_threads",), "crash",
    ),
    Fact(
        "architecture", "NextN layers that are computed, and their tensors", ("localllm.gguf.rules.nextn:FORMS",),
        "src/models/*.cpp (graph_mtp)", ("test_heads.py::test_the_answer_with_heads_is_the_answer_without", _NAMES),
        "crash",
    ),
    Fact(
        "architecture", "targets that give out hidden states", ("localllm.gguf.rules.target_states:GIVES_STATES",
        "localllm.gguf.rules.target_states:GIVES_LAST"), "src/models/*.cpp (t_layer_inp, t_h_nextn)",
        ("test_draft_heads.py::test_other_models_have_a_draft", _NAMES), "crash",
    ),
    Fact(
        "architecture", "drafts that guess from hidden states", ("localllm.gguf.rules.draft_heads:draft_head",
        "localllm.gguf.rules.assistants:TARGET"), "src/llama-arch.cpp",
        ("test_draft_heads.py::test_the_answer_with_a_draft_is_the_answer_without", _NAMES), "feature off",
    ),
    Fact(
        "architecture", "recurrent memories that roll back", ("localllm.gguf.rules.rollback:ROLLS_BACK",),
        "src/llama-arch.cpp (llm_arch_supports_rs_rollback)",
        ("test_rollback.py::test_rows_are_taken_back_as_if_they_had_never_been", _NAMES), "feature off",
    ),
    Fact(
        "architecture", "encoders and diffusion models; rankings that are probabilities",
        ("localllm.gguf.rules.encoders:NON_CAUSAL", "localllm.gguf.rules.encoders:SCORE_PROBABILITIES"),
        "src/models/*.cpp, src/llama-graph.cpp", ("test_embedding.py::test_an_encoder_agrees_with_numpy", _NAMES),
        "wrong result",
    ),
    Fact("architecture", "models that take no media rows", ("localllm.gguf.rules.media_rows:takes_rows",), "src/models",
        ("test_media_rows.py::test_models_whose_graph_ends_the_process_for_rows_refuse_them", _NAMES), "crash"),
    Fact(
        "architecture", "all names; files that only Ollama reads, and projectors",
        ("localllm.registry.sources.ollama_only:STOCK_NAMES", "localllm.registry.sources.ollama_only:OFTEN_ITS_OWN",
        "localllm.registry.sources.ollama_only:refused_header", "localllm.gguf.kinds:is_projector",
        "localllm.types.libraries.builds:Build"), "src/llama-arch.cpp", (_NAMES,), "refused",
    ),
    Fact(
        "format", "RPC protocol", ("localllm.types.libraries.builds:Build", "localllm.types.upstream:RPC_HELLO",
        "localllm.rpc.hello:ask"), "ggml/include/ggml-rpc.h, ggml/src/ggml-rpc/ggml-rpc.cpp", (_BUILD,
        "test_rpc.py::test_no_half_and_all_layers_on_the_other_machine_give_the_same_text"), "refused",
    ),
    Fact(
        "format", "saved states; stored ones are kept apart by a hash of the library",
        ("localllm.types.libraries.builds:Build", "localllm.kvdisk.fingerprint:Parts"),
        "include/llama.h (LLAMA_STATE_SEQ_VERSION)", (_BINDINGS,
        "test_kv_disk.py::test_a_state_from_the_disk_answers_as_the_one_that_was_computed"), "feature off",
    ),
    Fact(
        "format", "importance matrices", ("localllm.llama.quantizing.imatrix:read_imatrix",), "tools/imatrix/"
        "imatrix.cpp", ("test_quantize.py::test_what_an_importance_matrix_says_matters_comes_out_better",), "refused",
    ),
    Fact(
        "format", "features of backends, from one line", ("localllm.llama.library:_features",), "src/llama.cpp (llama_"
        "print_system_info)", ("test_library.py::test_the_library_is_loaded_once_and_tells_what_it_is",), "slower",
    ),
    Fact(
        "format", "variable that spares a crash its stack trace", ("localllm.llama.remote.rpc_child:main", "localllm."
        "worker.process:main", "localllm.worker.media.encoder_child:main"), "ggml/src/ggml.c", (_TEXTS,),
        "worse message", ("GGML_NO_BACKTRACE",),
    ),
    Fact(
        "format", "names of backends, their files and drivers", ("localllm.llama.backends:BACKENDS",
        "localllm.llama.backends:_OTHER_REGISTRIES"), "ggml/src/ggml-backend-reg.cpp",
        ("test_offload.py::test_a_device_is_chosen_by_name_and_an_unknown_one_refused",), "refused",
    ),
    Fact(
        "format", "options of its build", ("localllm.llama.runtimes.installed:FAST_INSTALL_FLAGS",
        "localllm.llama.runtimes.building:KINDS", "localllm.llama.runtimes.building:ONE_BACKEND",
        "localllm.llama.runtimes.build_faults:FAULTS"), "ggml/CMakeLists.txt",
        ("test_selftest.py::test_every_cpu_variant_gives_the_recorded_tokens_with_and_without_extra_buffers",),
        "slower",
    ),
    Fact(
        "format", "names of split files; keys of a header's sampling parameters", ("localllm.gguf.shards:shard_paths",
        "localllm.gguf.info:_SAMPLING_KEYS"), "src/llama.cpp (llama_split_path), src/llama-arch.cpp",
        ("test_tiny_models.py::test_a_split_model_gives_the_same_logits_as_the_whole_one", _TEXTS), "refused",
        ("%s-%05d-of-%05d.gguf", "general.sampling.top_k"),
    ),
    Fact(
        "speed", "rows from which attention is computed in tiles", ("localllm.llama.decoder:FLASH_TILE",
        "localllm.engine.scheduling.cost:TILE", "localllm.llama.embedding:TOGETHER_TOKENS"),
        "ggml/src/ggml-cpu/ops.cpp",
        ("test_kv_reuse.py::test_messages_that_are_computed_as_tiles_are_answered_as_if_fresh",), "slower",
    ),
    Fact(
        "speed", "AMX needs results at whole cache lines", ("localllm.llama.alignment:LINE_BYTES",),
        "ggml/src/ggml-cpu/amx", ("test_alignment.py::test_every_result_begins_at_a_cache_line",), "slower",
    ),
)  # fmt: skip
