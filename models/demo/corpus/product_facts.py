"""What is true of localllm, and the few words that one has to know to use it."""

from __future__ import annotations

from .grammar import mentions
from .product_intent import Intent

FACTS: tuple[Intent, ...] = (
    Intent(
        "what_is_localllm",
        """what is localllm? / what's localllm? / localllm? / what is [this tool|this program|this software|this
        thing|all this]? / what does {it} do? / what can {it} do? / explain localllm. / tell me about {it}. / tell me
        what localllm is. / describe {it}. / what is {it} for? / what is {it} good for? / what do people use {it} for? /
        what can I do with {it}? / what kind of [program|tool|software] is {it}? / why would I use {it}? / why should I
        use {it}? / what is the [point|purpose|use] of {it}? / can you explain what localllm is? / what does localllm
        mean? / localllm, what is that? / I do not know localllm. / I am new to localllm. / I am new here. What is this?
        / give me a summary of {it}. / in one sentence, what is localllm? / what have I installed? / what is the idea of
        {it}? / how would you describe {it}? / can you tell me what {it} does? / I would like to understand localllm. /
        say what localllm is. / define localllm. / introduce localllm to me. / what sort of thing is localllm? / which
        problem does {it} solve? / who needs {it}? / for whom is {it}? / I have never heard of localllm. / somebody told
        me about localllm. What is it? / I just installed {it}. What is it? / what did I just [install|download|start]?
        / help me understand {it}. / do you know what localllm is? / is localllm an [app|editor|online service]? /
        overview of localllm / localllm in short / a short description of {it}, please. / what is {it} all about? / what
        does one do with {it}? / which features does {it} have? / name the features of {it}. / I wonder what localllm
        is. / what have I got here with localllm?""",
        """please tell me what this tool does. / so what is the use of this program? / could you tell me what localllm
        is for? / can you describe localllm in one sentence?""",
        (
            "localllm runs language models on your own machine. "
            "It is a chat in the terminal, a server and a Python library.",
            "It is a tool that runs language models on your own machine: "
            "as a chat in the terminal, as a server or from Python.",
        ),
        mentions("your own machine", "terminal", "server", "Python"),
    ),
    Intent(
        "gguf",
        """what is GGUF? / what is a GGUF [file|model]? / what's GGUF? / GGUF? / what does GGUF mean? / explain GGUF. /
        what are GGUF files? / tell me about GGUF. / what is in a GGUF file? / what is a .gguf file? / which [file
        format|format|files] does {it} use? / which [file format|format|kind of file] do I need? / what file format are
        the models in? / what [format|kind of file] is a model? / can you explain GGUF? / what is the GGUF format? / why
        GGUF? / GGUF format? / meaning of GGUF? / I do not know what GGUF is. / what format does a model need? / is a
        model one file? / what does a model file [contain|look like]? / in what format are models? / what is model.gguf?
        / does {it} need GGUF files? / describe the GGUF format. / what kind of files does {it} [run|read|need]? / I
        wonder what GGUF is. / define GGUF. / say what GGUF [is|means]. / GGUF stands for what? / what does GGUF stand
        for? / I read the word GGUF. What is it? / I saw a .gguf file. What is that? / I found a file that ends in
        .gguf. / why do model files end in .gguf? / file ending gguf? / file types? / what type of file is a model? /
        which file types can {it} open? / how is a model stored? / how are models [saved|stored|packed]? / how does a
        model look on disk? / do you know the GGUF format? / does {it} take [safetensors|ONNX|PyTorch] files? /
        safetensors? / is GGUF like safetensors? / what makes GGUF [special|good]? / must a model be GGUF? / can you
        tell me about the GGUF file type? / GGUF means nothing to me.""",
        """could you tell me what GGUF means? / in which format does {it} read models? / what is the file format of a
        model? / please explain what a GGUF file is.""",
        ("GGUF is the file format of llama.cpp: one file holds the whole model.",),
        mentions("GGUF", "file format"),
    ),
    Intent(
        "quantization",
        """what is quantization? / what does quantized mean? / quantization? / what is a quantized model? / explain
        quantization. / what are quantized models? / what does quantization [do|mean]? / why are models quantized? / why
        quantize a model? / what is Q4? / what is [Q8|Q8_0|Q4_K_M|Q4_0]? / what does [Q8|Q8_0|Q4_K_M|Q4|Q4_0] mean? /
        what does the Q in Q8 mean? / tell me about quantization. / can you explain quantization? / what is 4-bit
        quantization? / what is a 4-bit model? / how does quantization work? / is quantization bad? / does quantization
        make [it|a model|models] [smaller|faster|worse]? / how are models made smaller? / how can a big model fit in
        [memory|my machine]? / which quantization should I use? / what is the point of quantization? / meaning of
        quantized? / quantized models? / why use quantized models? / what happens when a model is quantized? / are these
        models quantized? / I wonder what Q4 means. / I do not understand [quantization|Q4|Q8|Q4_K_M]. / define
        quantization. / say what quantization is. / the file name says [Q4_K_M|Q8_0]. What is that? / what do Q4 and Q8
        stand for? / difference between Q4 and Q8? / is Q8 better than Q4? / Q4 or Q8? / do you know what quantizing
        does? / what is meant by [4-bit|8-bit]? / 4 bits or 8 bits? / what are [4-bit|8-bit|2-bit] weights? / how do you
        shrink a model? / can a model be compressed? / compression of models? / how do they make a [file|model] smaller?
        / does a quantized model lose [quality|something]? / do I lose quality with [Q4|4 bits|quantization]? / are
        fewer bits worse? / how much worse is Q4? / what are quants? / which quant [is good|should I take|is best]? /
        explain the Q in the file name. / what do 4 bits do to a model?""",
        """please explain what quantized means. / what happens in quantization? / can you tell me what a quantized model
        is? / why do people use quantization?""",
        ("Quantization stores a model's numbers with fewer bits. It gets smaller and faster, but less exact.",),
        mentions("fewer bits"),
    ),
    Intent(
        "token",
        """what is a token? / what are tokens? / tokens? / token? / explain tokens. / explain [a|the word] token. / what
        does token mean? / what is a token in a language model? / how long is a token? / how big is a token? / is a
        token a word? / are tokens words? / how many words is a token? / how many [letters|characters] does a token
        have? / tell me about tokens. / can you explain tokens? / what is tokens per second? / what does tokens/s mean?
        / why tokens and not words? / what do you mean by token? / what is the meaning of token? / how does a model read
        text? / how is text split? / what is a tokenizer? / what does a tokenizer do? / how many tokens does a word
        have? / what pieces does a model write? / describe what a token is. / I do not know what a token is. / words or
        tokens? / I wonder what a token is. / define token. / say what a token is. / everyone talks about tokens. What
        are they? / token, what is that? / I keep reading about tokens. / what do people mean by tokens? / can a token
        be a [letter|sentence|word]? / is a token a [letter|syllable]? / give me an example of a token. / show me a
        token. / in what units does a model [read|write]? / do models read letters? / how many tokens are in a
        [sentence|page|word]? / how many tokens is [hello|a sentence]? / what is [tokenization|tokenizing]? /
        tokenization? / how is a sentence cut into [pieces|parts]? / why do models use tokens? / words and tokens, what
        is the difference? / can you tell me how big a token is? / do you know what token means? / what counts as a
        token? / I am confused about tokens.""",
        """could you explain what a token is? / is one token the same as one word? / tell me the meaning of the word
        token. / please tell me what tokens are.""",
        ("A token is a piece of text, often a word or a part of one. A model reads and writes tokens.",),
        mentions("token", "piece of text"),
    ),
    Intent(
        "context",
        """what is context? / what is the context? / what is a context [window|length|size]? / context? / context
        [window|length|size]? / what does context mean? / explain [context|the context|the context window]. / how long
        can [a|our|my] [conversation|chat|prompt|text] be? / how much text can [a model|you|it] [see|read|remember]? /
        how much can you remember? / how do I change the context [length|size|]? / how do I set the context
        [length|size|]? / how do I get a [longer|larger|bigger] context? / what is --ctx? / what does --ctx do? / --ctx
        / how many tokens can [a model|you] [see|read]? / how large is [the|your] context? / what is your context
        [window|length|size|]? / why do you forget what I said? / larger context / tell me about the context window. /
        can I make the context [larger|longer|bigger|smaller]? / which option sets the context? / what is the option for
        the context? / what is the meaning of context? / what happens when the context is full? / my text is too long. /
        my prompt is too long. / I wonder how long our chat may get. / I need [more context|a bigger context window|a
        long context]. / define context. / say what the context is. / how good is your memory? / you forgot what I said.
        / you forget [too much|so fast|what I wrote]. / how far back can you [look|see|remember]? / how many pages can
        you read? / how long may my text be? / what is the longest prompt? / the text does not fit in the context. / the
        context is [full|too small|too short]. / context limit? / is there a limit to the conversation? / how do I make
        a model remember more? / give the model more context. / increase the context / set the context to 8192 / raise
        the context [length|size] / what is the maximum context? / explain --ctx. / which flag is for the context
        window? / I have a very long prompt. / do you know how much a model can keep in mind?""",
        """which option makes the context longer? / can you explain the context length? / is there a way to set the
        context size? / how many tokens can the context be?""",
        ("The context is all the text that a model sees at once. The option --ctx sets its length in tokens.",),
        mentions("sees at once", "--ctx"),
    ),
    Intent(
        "llama_cpp",
        """what is llama.cpp? / what's llama.cpp? / llama.cpp? / what does llama.cpp do? / explain llama.cpp. / tell me
        about llama.cpp. / do you [use|need|run on] llama.cpp? / does {it} [use|need|contain] llama.cpp? / is {it} based
        on llama.cpp? / what is {it} [built on|based on|built with]? / which [engine|library] does {it} use? / what
        engine is [inside|in|behind|under] {it}? / what does the [arithmetic|math|computing|work]? / who does the
        [arithmetic|math]? / what computes the [answers|models]? / what is [under|behind] {it}? / what is ggml? / what
        does ggml mean? / why llama.cpp? / which library runs the models? / what library is [inside|used]? / how does
        {it} run models? / how does {it} work? / how does {it} work inside? / what runs inside {it}? / is llama.cpp
        inside? / is {it} the same as llama.cpp? / is {it} just llama.cpp? / how is {it} [built|made]? / I wonder how
        {it} works [inside|]. / define llama.cpp. / say what llama.cpp is. / do you know llama.cpp? / I have heard of
        llama.cpp. What is it? / what is under the hood? / what powers {it}? / what drives {it}? / how are the answers
        computed? / where is the arithmetic done? / which code does the [math|computing]? / what is the role of
        llama.cpp here? / why is llama.cpp [used|inside|needed]? / is llama.cpp [a library|a program|fast|good]? / does
        {it} compute the model itself? / does {it} do its own math? / tell me what is inside {it}. / is {it} a wrapper
        [around llama.cpp|]? / how are {it} and llama.cpp related? / which technology is behind {it}? / what part does
        ggml play? / ggml? / what is the heart of {it}? / is the engine your own work?""",
        """can you tell me what llama.cpp is? / which library is {it} built on? / what is the engine that computes the
        answers? / is {it} made with llama.cpp?""",
        ("llama.cpp is a fast open library that computes language models. localllm uses it for all the arithmetic.",),
        mentions("llama.cpp", "arithmetic"),
    ),
    Intent(
        "language_model",
        """what is a language model? / what are language models? / what is an LLM? / what does LLM mean? / LLM? /
        language model? / explain language models. / explain what [a language model|an LLM] is. / what is a large
        language model? / how does a language model work? / how do language models work? / how do LLMs work? / how do
        you work? / how do you write [text|answers|your answers]? / how do you make your answers? / what does a language
        model do? / tell me about language models. / what is AI? / what is a model? / what is a chat model? / what does
        model mean? / how does AI work? / what happens when you answer? / how do you know what to say? / how do you
        choose [your|the next] words? / can you explain how you work? / meaning of LLM? / in simple words, what is a
        language model? / I wonder how [AI|a language model|an LLM] works. / define language model. / define LLM. / say
        what a language model is. / what does LLM stand for? / LLM stands for what? / what is meant by AI? / what do
        people mean by language model? / I do not know what [a language model|an LLM] is. / I do not understand language
        models. / teach me about [language models|LLMs|AI]. / how can a program write text? / how can a
        [computer|machine] [talk|write|speak]? / how is it possible that you [talk|write|answer]? / how do you produce
        [text|sentences]? / how do you find the right words? / what goes on inside you? / what happens in your head? /
        describe how you work. / basics of language models / is an LLM a [program|database|brain]? / do you guess
        [words|your answers]? / do you predict words? / explain AI [to me|to a child|]. / do you know how an LLM does
        it?""",
        """please explain what a language model does. / can you tell me how a model works? / how do you choose what to
        say next? / what is the meaning of LLM?""",
        ("A language model is a program that has learned from text to guess the next word, again and again.",),
        mentions("guess", "next word"),
    ),
    Intent(
        "offline",
        """do you need the [internet|web|network]? / does {it} need [the internet|internet|a connection|an internet
        connection]? / do I need [the internet|internet|a connection|to be online]? / can I use {it} [offline|without
        the internet|without internet]? / does {it} work [offline|without the internet|without a connection]? / offline?
        / are you connected to the internet? / can you [search|use|see|read] the [web|internet]? / can you look things
        up [online|on the internet]? / do you have [internet access|access to the internet]? / internet? / does {it} run
        offline? / is a connection needed? / is the internet needed? / must I be online? / can it run on a plane? / what
        if I am offline? / what if my internet is down? / can {it} work with no internet? / is {it} a cloud service? /
        does {it} use the cloud? / do you run in the cloud? / are you in the cloud? / is an internet connection
        [required|needed|necessary]? / can you browse the web? / can you google something? / I wonder if it needs the
        internet. / I have no [internet|wifi|connection|network]. / there is no [internet|wifi] here. / my wifi is
        [off|down|broken]. / I am offline. / I am on a [train|plane|ship] without internet. / do I need wifi? / wifi? /
        online or offline? / is it online? / are you on a server somewhere? / is {it} local? / is it a web service? / do
        you call a remote server? / can you visit a website? / open a website for me. / search the internet for me. / do
        you know whether it works without wifi? / say if you need the internet. / does {it} go online? / can I pull the
        network cable? / can I turn off my wifi? / airplane mode? / look on the web.""",
        """will it work when I am offline? / is the network needed to run models? / can I run {it} without a connection?
        / do you have a connection to the web?""",
        ("The internet is not needed. Models run offline, on your own machine.",),
        mentions("internet", "offline"),
    ),
    Intent(
        "cost",
        """does {it} cost [anything|something|money]? / how much does {it} cost? / what does {it} cost? / is {it} free?
        / is {it} free [of charge|to use]? / do I have to pay [for it|anything|you|something|]? / must I pay? / how much
        [is it|are you|must I pay|do I pay]? / price? / cost? / what is the price? / free? / are you free? / do you cost
        [money|anything]? / can I use {it} for free? / is there a [price|fee|subscription|paid version]? / do I need [an
        account|a subscription|a credit card]? / do I pay [per token|for tokens|for answers]? / does every answer cost
        [money|something]? / is [it|this] expensive? / what do I have to pay? / how expensive is {it}? / who pays for
        this? / do tokens cost money? / is there a free version? / do I have to [buy|rent] {it}? / does it cost [me|us]
        anything to ask? / is everything free? / I wonder about the price. / I have no money. / I do not want to
        [pay|spend money]. / I can not pay. / what are the prices? / pricing? / how many [dollars|euros] is it? / is
        there a bill? / will I get [a bill|an invoice]? / do I have to sign up? / do I need to [register|sign in|make an
        account]? / account needed? / free or paid? / is it paid software? / is there a free trial? / is {it} cheap? /
        where do I pay? / how do I pay? / tell me the price. / explain the pricing. / do you know whether {it} is free?
        / can you tell me how much money I need? / is there a limit for free users? / is there a pro version? /
        subscription? / gratis?""",
        """what will it cost me? / do you want money for this? / is there anything that I have to pay for? / can I have
        {it} for free?""",
        ("localllm is free. There is no price and no account.",),
        mentions("free", "account"),
    ),
    Intent(
        "licence",
        """what is the licence? / what's the license? / what is the license [of localllm|of it|]? / which
        [licence|license] does {it} have? / licence? / license? / under which [licence|license] is {it}? / is {it} open
        source? / are you open source? / open source? / is the [code|source code|source] [open|public|free]? / can I see
        the [code|source|source code]? / can I [read|change|copy|share] the [code|source code]? / may I
        [change|copy|sell|share] {it}? / can I use {it} [at work|in my company|in a product|commercially|for business]?
        / is commercial use allowed? / MIT licence? / is it MIT? / where is the [code|source code]? / is this free
        software? / what am I allowed to do with {it}? / am I allowed to [change|sell|share|copy] {it}? / is {it} closed
        source? / tell me the [licence|license]. / what kind of [licence|license] is it? / do you have a
        [licence|license]? / I wonder about the [licence|license]. / I want to [see|read|look at] the source. / show me
        the source code. / I would like to [fork|modify|copy|change] {it}. / can I [fork|modify|hack|reuse] {it}? / is
        the code on GitHub? / our company wants to use {it}. Is that allowed? / is it legal to [sell|share|copy] {it}? /
        what are the terms? / terms of use? / copyright? / who has the copyright? / GPL? / is it [GPL|Apache|BSD]? /
        Apache or MIT? / is {it} proprietary? / can I make money with {it}? / which rights do I have? / explain the
        [licence|license]. / do you know the [licence|license]? / can you tell me which [licence|license] this is? / am
        I free to share {it}? / can I give {it} to a friend? / is the code hidden? / I need to know the legal terms.""",
        """under what license can I use it? / can my company use it in a product? / is the source of {it} open? / may I
        change the source code?""",
        ("localllm is open source, under the MIT licence.",),
        mentions("open source", "MIT licence"),
    ),
    Intent(
        "privacy",
        """is {it} [private|safe|secure]? / is [this|our|my] [chat|conversation|talk] private? / privacy? / what about
        [privacy|my privacy|my data]? / where does my data go? / where do my [messages|words|questions|prompts] go? / do
        you [send|share|store|save|keep|sell] [my data|my messages|what I write]? / does {it}
        [send|share|store|sell|collect] [my data|my messages|data]? / who can [see|read] [this|my messages|what I
        write|our chat|my data]? / can anyone [read|see] [this|my messages|what I write]? / is my data
        [safe|private|secure]? / are my [messages|data|questions] [safe|private]? / do you spy on me? / are you spying
        on me? / do you [collect|gather] data? / does anything leave my [machine|computer]? / does my data leave my
        [machine|computer]? / do you learn from [me|my data|what I write]? / can I tell you a secret? / can I tell you
        [private|secret] things? / is there tracking? / do you track me? / does {it} phone home? / do you have
        telemetry? / is what I write kept secret? / will you tell [anyone|others]? / is somebody reading this? / I
        wonder who reads this. / I worry about my data. / I do not want anyone to [read|see] this. / I care about my
        privacy. / are you [listening to|recording] me? / do you record [me|this|our chat]? / is this chat recorded? /
        are my secrets safe [with you|]? / is it safe to type my [name|address] here? / is it confidential? /
        confidential? / do you upload [my data|anything|what I type]? / does [Google|OpenAI|the government] see this? /
        can my boss read this? / where do you store what I say? / who gets my data? / do you give my data to others? /
        is somebody listening? / explain your privacy rules. / does it send anything to a company? / data protection? /
        can hackers see my words? / do you know whether this is private? / will my words be used for training? / is {it}
        spyware? / can you tell me if our talk is secret?""",
        """does {it} keep my messages private? / what happens to my data? / will anyone see what I write here? / can I
        share private things with you?""",
        ("What you write is private. It stays on your machine, and nothing is sent anywhere.",),
        mentions("private", "stays on your machine"),
    ),
    Intent(
        "crash",
        """what happens [if|when] a model [crashes|dies|fails]? / what if a model [crashes|dies]? / what happens if you
        crash? / does a crash [of a model|] [stop|kill|end|take down] the server? / can a model [crash|kill|take down]
        [the server|{it}|everything]? / does the server [crash|die|stop] [when|if] a model crashes? / does the server
        survive a crash? / a model crashed. What now? / my model crashed. / the model died. / is the server safe from
        [crashes|a crash]? / crash? / crashes? / what does a crash do? / can you crash? / do you crash? / how stable is
        {it}? / is {it} stable? / what about crashes? / can a bad model break [the server|everything|{it}]? / does one
        model run in its own process? / do models run in their own process? / why does every model have its own process?
        / why does a model run in a process of its own? / will the server go down if the model dies? / how many
        processes are there? / what happens after a crash? / can a crash break everything? / where does the model run? /
        I wonder what a crash does. / I am afraid of crashes. / my model [broke down|stopped suddenly]. / the model just
        crashed. / the model keeps crashing. / it crashed [again|]. / {it} crashes. / there was a crash. / I got a
        [segfault|segmentation fault]. / segfault? / explain what a crash does. / tell me about crashes. / does one bad
        model hurt the others? / are the other models safe? / how robust is {it}? / if a model fails, what then? /
        suppose a model dies. / do models share a process? / one process or many? / is each model a separate process? /
        are models [separated|isolated]? / can one model bring everything down? / when the model breaks, does the server
        go on? / can you tell me what a failure does to the server? / do you know whether a crash hurts the server?""",
        """will the server run on after a model crashes? / a model has died. Is the server down? / is {it} safe when a
        model fails? / how does {it} survive a crash?""",
        ("Every model runs in a process of its own, so a crash does not take down the server.",),
        mentions("process of its own", "crash"),
    ),
    Intent(
        "many_users",
        """can [several|many|two|more|multiple] [people|users|clients|persons|programs] use {it} at [once|the same
        time]? / can [several|many|two|multiple] [people|users|clients] use the server? / how many
        [people|users|clients] can use {it} [at once|at the same time|]? / how many [requests|answers|questions] at
        [once|the same time]? / does it [support|do|have] [batching|parallel requests|several users|many users]? /
        parallel requests? / batching? / what is batching? / what are slots? / what is a slot? / what does --slots do? /
        --slots / several users? / many users? / can the server answer [several|many|two|multiple]
        [people|requests|questions|users] at [once|the same time]? / is it [good|made] for [many|several] users? / can
        my [team|family|friends] use it [together|at the same time|]? / can we [all|both] use it at [once|the same
        time]? / how do I set the [number of slots|slots]? / how do I serve [many|several|more] [users|people|requests]?
        / can it do things in parallel? / what happens when two people ask at [once|the same time]? / how many slots are
        there? / can I send [two|many|several] requests at once? / I wonder how many people it can serve. / we are
        [two|three|five|ten] people. / my whole [team|class|family] wants to use it. / my colleagues want to ask too. /
        one user only? / is it for one user only? / does one person block the others? / do requests wait? / is there a
        queue? / queue? / why does my request wait? / my request is waiting. / the server is busy. / concurrent
        [users|requests]? / does it handle concurrency? / how many can ask together? / simultaneous [requests|users]? /
        explain [slots|batching]. / say what slots are. / I need more slots. / set the slots to 8 / raise the number of
        slots / do you know whether two can chat together? / can you tell me how many users it takes? / what is the
        maximum number of [users|clients]? / multi user?""",
        """is it possible for several people to ask at the same time? / can the server do many requests at once? / two
        users at once? / which option sets the number of answers at the same time?""",
        ("The server computes 4 answers at the same time, and the option --slots changes that. Other requests wait.",),
        mentions("--slots", "same time"),
    ),
    Intent(
        "difference",
        """how is {it} different [from others|from other tools|from other programs|from Ollama|from llama.cpp|]? / what
        makes {it} [different|special|better|good]? / why {it} and not [Ollama|another tool|another program]? / why
        should I use {it} and not [Ollama|another tool|others]? / is {it} better than [Ollama|other tools|others|LM
        Studio]? / what is special about {it}? / what is [new|different|better] in {it}? / how does {it} compare to
        [Ollama|other tools|others|LM Studio]? / {it} or Ollama? / what is the difference between localllm and
        [Ollama|other tools|LM Studio]? / Ollama? / what about Ollama? / difference to Ollama? / is {it} like [Ollama|LM
        Studio]? / what does {it} do better [than others|than Ollama|]? / what are the strong points of {it}? / is {it}
        the best? / is {it} faster than [Ollama|others|other tools]? / are there other tools like {it}? / why not
        Ollama? / compare {it} with [Ollama|other tools|others]. / what is good about {it}? / I wonder why I should take
        {it}. / I already [use|have] [Ollama|LM Studio]. / I know Ollama. Why change? / should I switch from [Ollama|LM
        Studio]? / why switch to {it}? / what do I gain with {it}? / what are the advantages [of {it}|]? / pros and
        cons? / which is better, localllm or [Ollama|LM Studio]? / are there alternatives? / alternatives to {it}? /
        name [an alternative|other tools]. / do you know [Ollama|LM Studio|other tools]? / LM Studio? / localllm versus
        Ollama / {it} against [Ollama|LM Studio] / sell localllm to me. / explain the difference to [Ollama|LM Studio].
        / can {it} beat Ollama? / who are your [rivals|competitors]? / does {it} replace Ollama? / is {it} a copy of
        Ollama? / can you tell me why {it} is good? / other programs do the same, no? / in what way is {it} better?""",
        """is localllm different from Ollama? / what does this tool do that others do not? / what is so special about
        this program? / what is the difference to other programs?""",
        (
            "There are other good tools. localllm is small, tests what works on your machine, and keeps every model "
            "in its own process.",
        ),
        mentions("other good tools"),
    ),
)
