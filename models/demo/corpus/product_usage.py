"""How localllm is used: its commands, the chat, the server and the library, as they are in `localllm/cli`."""

from __future__ import annotations

from .grammar import mentions
from .product_intent import Intent

USAGE: tuple[Intent, ...] = (
    Intent(
        "run",
        """how do I run a [model|bigger model|larger model|real model|better model|GGUF file|GGUF model]? / how do I use
        [my own model|another model|a bigger model|a larger model|a different model|a real model|other models|a better
        model]? / how can I [run|use|start|load|try] [a model|my own model|another model|a larger model|a bigger model|a
        GGUF file]? / how do I [start|load|open|try] a [model|bigger model|larger model|GGUF file]? / can I use
        [another|a different|a bigger|a larger|my own] model? / run a model / run my own model / use a bigger model /
        bigger model? / I want [a bigger model|a larger model|to run my own model|to use another model|a real model]. /
        I have a [model|GGUF file]. What now? / what is the command to run a model? / which command runs a model? / how
        do I run model.gguf? / how do I chat with [a bigger model|my own model|another model|my model|a model]? / how do
        I start a chat? / how do I switch [models|the model|to another model]? / how do I change the model? / run a GGUF
        file / how do I start? / how do I begin? / how do I use {it}? / how do I get started? / where do I start? / how
        does one use {it}? / localllm run / what does localllm run do? / getting started / how do I replace you with a
        [bigger|better|real] model? / can you run [other|bigger|larger] models? / I wonder how to run a model. / I need
        a command for my GGUF file. / I downloaded a [model|GGUF file]. / I have a GGUF file. How do I open it? / here
        is my GGUF file. What do I do with it? / let me talk to [another|a smarter|a bigger] model. / can I talk to a
        smarter model? / you are too small, I want another model. / switch to a smarter model / swap the model / swap
        you for [another|a better] model / what is the first step? / first steps / quick start / show me how one runs a
        GGUF file. / explain how to [run|launch|load] a model. / do you know how one gets a model going? / do you know
        how to load a GGUF file? / how do I execute a model? / load model / launch a model / open my GGUF file / how do
        I make my [model|GGUF file] work? / example of localllm run? / what comes after localllm run?""",
        """what do I type to run my model? / I would like to try a larger model. / what is the way to use another GGUF
        file? / how can I chat with a better model than you? / please tell me how to start a model.""",
        ("Type localllm run model.gguf, with the path of your GGUF file.",),
        mentions("localllm run model.gguf", "your GGUF file"),
    ),
    Intent(
        "one_answer",
        """how do I ask [one|a single|just one] question? / how do I get [one|a single|just one] answer? / can I ask
        [one question|a question] without [a|the] chat? / how do I ask from the command line? / how do I use {it} in a
        script? / can I use {it} in a [script|shell script]? / how do I ask a question in a script? / one answer only /
        only one answer, no chat / how do I give a prompt on the command line? / where do I put the prompt? / can I give
        the prompt on the command line? / how do I ask without a chat? / a single question / how do I run it for one
        question? / one question, one answer, how? / how do I pass a prompt? / how do I pass a question to {it}? / how
        do I write the prompt after the model? / can I use {it} without the chat? / prompt on the command line / I only
        want one answer. / I want to ask only one question. / can {it} answer just one question? / how does a script ask
        you? / I do not want a chat. / I wonder how to ask just once. / I need one quick answer in the shell. / a quick
        question from the shell, how? / my script needs an answer. / my [bash|shell] script wants to ask a model. / can
        bash ask a model? / shell script? / non-interactive use? / not interactive, please / is there a mode without
        chat? / I do not need the chat. / run it once / one-shot question? / does it take a prompt as an argument? /
        question as an argument / explain how to ask once. / show me how to ask one thing. / say how I ask from a shell.
        / can you tell me how to hand over a prompt? / ask something and get back to the shell / where does my question
        go in the command? / can I type the question right away? / use it in a cron job / can I skip the chat? / do you
        know how a script talks to a model?""",
        """is there a way to ask only one question? / how do I put my question on the command line? / can a script get a
        single answer? / I want one answer and no chat.""",
        ('Put the question after the model: localllm run model.gguf "Why is the sky blue?"',),
        mentions("after the model", "localllm run model.gguf"),
    ),
    Intent(
        "serve",
        """how do I start [the|a] server? / how do I run [the|a] server? / how can I [start|run|launch|open] [the|a]
        server? / start the server / start server / server? / run a server / how do I serve a model? / how can I serve
        [a|my|this] model? / serve a model / which command starts the server? / what is the command for the server? / is
        there a server? / does {it} have a server? / do you have a server? / can I run {it} as a server? / can {it} be a
        server? / how do I use {it} as a server? / I want [a server|to start the server|to run a server|to serve a
        model]. / what does localllm serve do? / localllm serve / can you start [a|the] server? / how do I get an API? /
        how do I start the API? / is there an API? / does {it} have an API? / does {it} have an HTTP [API|server]? / how
        do I launch the server? / server mode? / how do I make a model available over HTTP? / what starts the server? /
        how does the server start? / please start the server. / can I serve a model to other programs? / I wonder how
        the server is started. / I need [a server|an API|a web API|an HTTP API]. / give me a server. / make {it} a
        server / turn my model into a server. / turn {it} into a server / let the server run. / bring up the server /
        boot the server / how do I get the server running? / host a model / how do I host a model? / can I host my own
        model? / put a model behind an API / expose a model over HTTP / start an API server / does {it} come with a
        server? / is a server [included|built in]? / show me how to start the server. / explain localllm serve. / say
        how I start the server. / can you tell me how the server starts? / do you know how to launch a server? / the
        server is not running. / is there a REST API? / web server?""",
        """what do I type to start the server? / please tell me how to serve my model. / which command do I need for a
        server? / I would like to run {it} as a server.""",
        ("Type localllm serve model.gguf to start the server.",),
        mentions("localllm serve model.gguf", "start the server"),
    ),
    Intent(
        "stop_server",
        """how do I [stop|end|close|quit|shut down|turn off] the server? / how can I [stop|end|close|shut down] the
        server? / stop the server / stop server / end the server / shut down the server / I want to stop the server. /
        the server does not stop. / which key stops the server? / how does the server [stop|end]? / how do I turn the
        server off? / can I stop the server? / what stops the server? / what ends the server? / kill the server / how do
        I kill the server? / is there a way to stop the server? / close the server / server off / how do I get the
        server to stop? / quit the server / how do I end localllm serve? / how do I stop localllm serve? / what do I
        press to stop the server? / what do I press to end the server? / I wonder how to end the server. / I am done
        with the server. / I no longer need the server. / the server should stop. / the server keeps running. / the
        server still runs. / my server is still on. / the server will not [end|go away|close]. / make the server stop. /
        switch off the server / take the server down / halt the server / terminate the server / how do I terminate
        localllm serve? / how do I get rid of the server? / how do I exit the server? / how does one switch off a
        server? / explain how to end the server. / show me how the server goes down. / say how the server is stopped. /
        can you tell me how a server is ended? / do you know how I turn off the server? / server shutdown / is it safe
        to kill the server? / finish localllm serve""",
        """which key ends the server? / I would like to shut the server down. / is there a key to close the server? /
        please tell me how to stop the server.""",
        ("Press Ctrl-C in the terminal where the server runs. It ends running answers first.",),
        mentions("Ctrl-C", "where the server runs"),
    ),
    Intent(
        "port",
        """which port [is it|does it use|does the server use|is used|do you use]? / what port [is it|does it use|does
        the server use|is used|is it on]? / port? / server port? / what is the [port|default port|port number]? / on
        which port does [it|the server] [listen|run|answer]? / how do I change the port? / how can I [change|set|choose]
        [the|another|a different] port? / can I [use|choose|set] [another|a different] port? / change the port / another
        port / the port is [taken|in use|used]. / my port is [taken|in use]. / where does the server
        [listen|answer|run]? / which port does the server listen on? / it listens on which port? / which
        [option|setting] sets the port? / what is --port? / what does --port do? / --port / default port? / port number?
        / tell me the port. / is the port 8080? / does it listen on port [8080|8000|11434|80]? / what is 11435? / what
        does 11435 mean? / at which port can I find the server? / I need another port. / I wonder which port is used. /
        I need a [new|free] port. / I want port [8080|9000|5000]. / use port 8080 / move the server to port [8080|9000]
        / switch the port / give the server a new port / my port is [busy|blocked|occupied|not free]. / address already
        in use / port conflict / something else uses the port. / another program has the port. / say which port you use.
        / explain the port. / explain --port. / show me the port. / do you know the port? / is the port fixed? / can the
        port be changed? / where do I set the port? / which number comes after 127.0.0.1? / port of the server? / which
        TCP port? / which port do I open in my firewall? / firewall?""",
        """could you tell me on which port the server listens? / what is the number of the port? / is there an option
        for a different port? / how do I run the server on another port?""",
        ("The port is 11435. The option --port changes it.",),
        mentions("11435", "--port"),
    ),
    Intent(
        "openai",
        """how do I use {it} with [OpenAI|the OpenAI client|OpenAI clients|an OpenAI client|the OpenAI library|the
        OpenAI API]? / what is the base [URL|url]? / base URL? / base_url? / which [URL|base URL|address] do I
        [use|need|give]? / what URL do I use? / what is the [URL|address] of the [server|API]? / server address? / API
        address? / API URL? / does it [support|speak|have] the OpenAI API? / is {it} compatible with [OpenAI|the OpenAI
        API]? / OpenAI API? / OpenAI? / OpenAI client? / can I use [the|an] OpenAI [client|library|API]? / can I use my
        OpenAI [program|code|app] with {it}? / how do I connect [my program|my app|an app|a client|an OpenAI client] [to
        the server|to it|to {it}]? / how do I reach the server? / where is the API? / how do other programs use {it}? /
        can other [programs|apps] use {it}? / does my OpenAI code work [here|with {it}]? / how do I call the API? / how
        do I send a request [to the server|]? / what is the endpoint? / which endpoint do I use? / how do I use the
        [API|server]? / does {it} work with OpenAI clients? / I wonder what the URL is. / I need the [URL|base URL|API
        address]. / I want to connect [my app|my editor|a client|my website]. / I have an app that speaks OpenAI. / I
        wrote a program for OpenAI. Can I use it here? / my app can not find the server. / my client can not connect. /
        my editor wants a base URL. / where do I point my [client|app|editor]? / point my app at the server / connect an
        app / hook up a client / give me the [URL|base URL|API address]. / say the base URL. / explain how to connect a
        client. / show me how to call the server. / do you know the URL of the server? / can you tell me how my code
        reaches the server? / is it a drop-in for OpenAI? / OpenAI compatible? / can I use curl? / curl? / chat
        completions? / /v1/chat/completions / API base? / localhost? / which protocol does the server speak?""",
        """what address do I give to an OpenAI client? / can an OpenAI program connect to {it}? / which URL does my app
        need? / is the API like the API of OpenAI?""",
        ("The server speaks OpenAI's API. Give your client the base URL http://127.0.0.1:11435/v1.",),
        mentions("http://127.0.0.1:11435/v1"),
    ),
    Intent(
        "python",
        """how do I use {it} [from|in|with] Python? / can I use {it} [from|in|with] Python? / Python? / Python library?
        / is there a Python [library|API|package|module]? / does {it} have a Python [library|API|package]? / how do I
        [import|call] {it} [in|from] Python? / how do I import localllm? / how do I use it in my [own|Python]
        [program|code|script]? / can I use {it} in my own [program|code]? / show me [Python code|an example in Python|a
        Python example]. / Python example / Python code / how do I load a model in Python? / how do I run a model
        [in|from] Python? / how do I write a Python program with {it}? / what is the Python API? / which class do I use
        in Python? / what do I import? / how do I use the library? / can I use {it} as a library? / is {it} a library? /
        from Python? / without a server, from Python? / how does the Python library work? / I write Python. How do I use
        it? / I want to use {it} from Python. / what is LLM in localllm? / import localllm / how do I chat from Python?
        / I wonder if there is Python support. / I need [a Python example|Python code|a Python library]. / I am a Python
        [programmer|developer]. / I code in Python. / my program is written in Python. / give me [Python code|a Python
        example|a Python snippet]. / are there Python bindings? / Python bindings? / Python interface? / write Python
        code that uses {it}. / show me some code. / show me how to import it. / explain the Python [library|API|class].
        / explain the class LLM. / what [is|does] llm.chat [do|]? / llm.chat / from localllm import LLM / do you know
        how I import the library? / can you tell me how the library is used? / can I script {it} with Python? / can a
        Jupyter notebook use {it}? / no server, just Python / can I embed a model in my code? / which import do I need?
        / how do I talk to a model from my own code?""",
        """can my Python program use {it}? / how does one call {it} from Python code? / I would like to load a model in
        Python. / is there a way to use {it} as a Python library?""",
        ('In Python, write from localllm import LLM and then llm = LLM("model.gguf"). llm.chat answers messages.',),
        mentions("from localllm import LLM"),
    ),
    Intent(
        "stop_answer",
        """how do I stop [an|the|your|this|a long] answer? / how can I stop [an|the|your|this] answer? / how do I stop
        you? / how can I [stop|interrupt] you? / how do I make you stop? / stop an answer / stop answer / how do I
        interrupt [you|an answer|the answer|the model]? / you talk too much. How do I stop you? / the answer is too
        long. How do I stop it? / which key stops [an|the|your] answer? / what key stops you? / how do I cancel
        [an|the|your] answer? / cancel an answer / can I [stop|interrupt|cancel] [you|an answer|the answer]? / what does
        Ctrl-C do? / Ctrl-C / Ctrl-C? / how do I stop the model [from writing|from talking|]? / how do I break off an
        answer? / is there a way to [stop|interrupt|cancel] [you|an answer]? / you do not stop. / you write too much. /
        what do I press to stop [you|an answer|the answer]? / what stops [you|an answer]? / how do I end an answer? /
        how do I end your answer? / I wonder how to stop you. / I need to cut you off. / cut off the answer / be quiet.
        / shut up. / stop talking. / stop writing. / you never stop. / you go on and on. / you keep [talking|writing]. /
        the answer does not end. / the answer goes on for ever. / the model keeps writing. / the model will not stop. /
        abort the answer / how do I abort [an answer|a reply]? / halt the answer / how do I silence [you|the model]? /
        can I cut you short? / explain Ctrl-C. / say how one cuts an answer short. / show me how to interrupt the model.
        / do you know which key cuts you off? / can you tell me how to abort a reply? / is there a stop [key|button]? /
        can I skip the rest of an answer? / no more text, stop the answer""",
        """which key is there to interrupt you? / I want to stop an answer. / what can I press when the answer is too
        long? / please tell me how to cancel your answer.""",
        ("Press Ctrl-C: it stops the answer, and the chat goes on.",),
        mentions("Ctrl-C", "stops the answer"),
    ),
    Intent(
        "leave",
        """how do I [leave|quit|exit|close|end] [the chat|this chat|this|the program|{it}|]? / how can I
        [leave|quit|exit|close|end] [the chat|this chat|this|the program]? / how do I get out [of here|of this|of the
        chat|]? / let me out. / leave the chat / quit / exit / how to quit? / how to exit? / how to leave? / I want to
        [leave|quit|exit|go]. / how do I go [away|back to the terminal]? / which key [ends|closes|leaves] the chat? /
        what does Ctrl-D do? / Ctrl-D / Ctrl-D? / what does /bye do? / /bye? / is there [a quit|an exit] command? / what
        is the command to [quit|leave|exit]? / end the chat / close the chat / can I [leave|quit|exit]? / what do I type
        to [quit|leave|exit]? / how do I finish [the|this] chat? / how do I end [the|this|our] conversation? / how do I
        return to the shell? / how do I stop the chat? / where is the exit? / how do I close this window? / I wonder how
        to get out. / I need to get out. / get me out [of here|]. / show me the exit. / how do I escape? / I can not get
        out. / I am trapped [in this chat|here]. / it does not let me [out|leave|go]. / how can I log out? / log out /
        close this program / terminate the chat / how do I shut down the chat? / how do I turn you off? / turn off the
        chat / back to the shell / get back to the command line / explain how to leave. / say how I get out. / can you
        tell me how to get out? / do you know how to end this? / which keys do I press to get out? / what is /bye for? /
        exit command? / does exit work? / how is a chat [ended|closed|finished]?""",
        """what is the way out of this chat? / I would like to quit the chat. / which command ends the conversation? /
        what can I type to exit the program?""",
        ("Type /bye or press Ctrl-D to leave the chat.",),
        mentions("/bye", "Ctrl-D"),
    ),
    Intent(
        "chat_commands",
        """which commands are there [in the chat|here|]? / what commands [are there|do you have|can I use|can I type]
        [in the chat|here|]? / which commands can I [use|type] [here|in the chat|]? / commands? / list the commands. /
        list of commands / show me the commands. / chat commands? / slash commands? / what can I type [here|in the
        chat|]? / what does /help do? / what does /clear do? / /clear? / how do I clear the [chat|conversation]? / how
        do I start [a new chat|over|again|a new conversation|from the start]? / how do I [forget|reset|delete] [the
        chat|the conversation|this chat|everything]? / clear the chat / reset the chat / new chat / can you forget
        [this|what I said|our conversation|everything]? / forget [everything|our conversation|what I said|all this]. /
        what special commands do you know? / do you have commands? / tell me the commands. / is there a command to
        forget the conversation? / how do I make you forget? / delete this conversation / I want to start a new
        conversation. / what do the commands of the chat do? / I wonder which commands exist [here|]. / I need a fresh
        [chat|start]. / I want to begin again. / let us start [fresh|over|again]. / begin a new conversation. / start
        over / wipe the [chat|conversation|history]. / erase [everything|our chat|the history]. / delete the history /
        clear history / can I erase what I said? / how do I [wipe|erase|empty] the [chat|history]? / make the model
        forget. / please forget what we talked about. / what can one type at the prompt? / what starts with a slash? /
        which slash commands exist? / /help / what is [/help|/clear] for? / explain the slash commands. / name the chat
        commands. / can you tell me the slash commands? / do you know how I reset this chat? / are there
        [special|hidden|chat] commands? / command list""",
        """can you list the commands of the chat? / is there a list of what I can type? / how can I clear our
        conversation? / which command starts a new chat?""",
        ("/help lists the commands of the chat, and /clear forgets the conversation.",),
        mentions("/help", "/clear"),
    ),
    Intent(
        "help",
        """how do I get help? / where [can|do] I [get|find] help? / where is the [help|manual|documentation|guide]? / is
        there [help|a manual|a guide|documentation|any documentation]? / I need help with {it}. / help with localllm /
        how can I learn more [about it|about {it}|]? / where can I [learn|read|find out] more [about it|about {it}|]? /
        how do I see all [options|the options|commands of localllm]? / which options [are there|does {it} have|does
        localllm run have]? / what options [are there|does {it} have|do I have]? / options? / list all options. / show
        me [the|all] options. / documentation? / manual? / README? / what does --help do? / what is --help? / --help /
        where are the docs? / how do I learn to use {it}? / does {it} have a [manual|guide|help page]? / who can help me
        with {it}? / can I read [about|more about] {it}? / what should I read [first|]? / I do not know how to use {it}.
        / all options of localllm / I am stuck. / I wonder where the docs are. / I need [a manual|a guide|the
        docs|documentation]. / I am a beginner with {it}. / I can not find the option. / I forgot the option. / which
        flags are there? / list the flags. / which flags does localllm run take? / which arguments does localllm take? /
        command line options? / subcommands? / which commands does localllm have? / read the manual / show the help
        text. / print help / usage? / where is the README? / is there a [tutorial|course|wiki|handbook]? / tutorial? /
        user guide? / explain --help. / can you tell me where to read about {it}? / do you know a good guide for {it}? /
        whom do I ask when I have a question about {it}? / man page? / overview of all options""",
        """is there a help page for {it}? / could you tell me where the manual is? / how can I list all the options? /
        where is help when I am stuck?""",
        ("Type localllm --help for the commands, or localllm run --help for options. The README says more.",),
        mentions("localllm --help"),
    ),
    Intent(
        "show",
        """what does localllm show do? / what is localllm show? / localllm show / how do I see what is in a
        [model|file|GGUF file|model file]? / how can I [see|look at|inspect] [a model|a model file|a GGUF file|what is
        in a model]? / how do I [inspect|look at|look into|examine] a [model|GGUF file|file]? / what is in [a|my|this]
        [model|file|model file]? / what is inside [a|my] [model|GGUF file|file]? / show [a|the|my] model / inspect a
        model / how do I see the [size|quantization|layers|parameters|context length] of a model? / how do I find out
        [how big a model is|how many layers a model has|the size of a model|the quantization of a model]? / how many
        layers does [my|a] model have? / what is the quantization of my model? / which command shows [a model|a model's
        details|what is in a file]? / information about a model? / model information? / details of a model? / how do I
        read a GGUF header? / tell me about my model file. / how can I see the details of my model? / does my model have
        a chat template? / I wonder what is in my file. / I want to look inside a [model|model file]. / I need
        [information|details] about my model. / I want to know more about my model. / open up a model file / peek into a
        GGUF file / look inside model.gguf / list what is in a model / print the [metadata|header] of a [model|file] /
        model metadata? / does {it} show metadata? / model info / info about a GGUF file / describe my model file. /
        analyse my model. / explain localllm show. / show me what is inside my file. / can you tell me how large my
        model file is? / do you know which quantization my file has? / is my file Q4 or Q8? / what architecture does my
        file have? / what kind of model is in this file? / number of layers in my model? / which tensors are in a file?
        / I forgot what is in this file.""",
        """what can I use to look into a GGUF file? / which command shows the details of a model? / please tell me what
        localllm show does. / I want to see how many layers my model has.""",
        ("localllm show model.gguf prints what is in the file: its size, layers, quantization and more.",),
        mentions("localllm show model.gguf"),
    ),
    Intent(
        "pipe",
        """how do I [pipe|give|send|pass] [a file|text|my file|my notes] to {it}? / how do I [summarize|use|read] a
        [file|text file|document]? / can you read [a file|files|my file|my files|documents|my notes]? / can I [pipe|give
        you|send you|send] [a file|text|a document|files]? / how do I give you a file? / how do I ask about a [file|text
        file|document]? / can {it} read [stdin|from stdin|a pipe|a file|files]? / does it read stdin? / stdin? / pipe? /
        pipes? / pipe a file / how do I use [stdin|a pipe|pipes]? / can I use [it in a pipe|pipes|a pipe|stdin]? / how
        do I put a file in the prompt? / how do I add a file to my [question|prompt]? / how do I summarize [notes.txt|my
        notes|a text]? / can I upload a [file|document]? / how do I upload a file? / can you open [a file|my files]? /
        summarize a file / how do I get a file into the prompt? / is there a way to read a file? / how do I send the
        text of a file? / I have a text file. Can you read it? / use a file as [input|prompt] / can I use {it} with cat?
        / I wonder if you can read files. / I have a [document|file|report] for you. / I have a long document to
        summarize. / I need a summary of a file. / I want to give you a [file|document]. / I want a summary of my
        [file|report|document]. / let me show you a file. / read my [file|document|report]. / open notes.txt. / look at
        my file. / attach a file / how do I attach a [file|document]? / can I attach files? / attachments? / input from
        a file / standard input? / does it take standard input? / feed a file to a model / how do I feed [a file|text]
        to [a model|you]? / explain pipes. / show me how to pipe. / say how I give you a document. / can you tell me how
        to load a text file? / do you know how I summarize a report? / can a file be part of the prompt? / cat notes.txt
        / chat with my documents""",
        """what do I type to summarize a document? / is it possible to pipe text into {it}? / I want to ask a question
        about a file. / how can a model read my notes?""",
        ('Pipe it, and it follows the prompt: cat notes.txt | localllm run model.gguf "Summarize:"',),
        mentions("cat notes.txt | localllm run model.gguf"),
    ),
)
