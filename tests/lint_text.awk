# What can be seen in the text of a C or CUDA source, one file per run: sizes, banned functions,
# typedefs, which folders and libraries it includes, how a header begins. Paths are relative to the
# top, so that FILENAME begins with the folder.

function report(line, rule, text)
{
    printf "%s:%d: %s: %s\n", FILENAME, line, rule, text
}

# The line without comments, and with empty strings and characters.
function code_of(line,    code, char, i, quote)
{
    code = ""
    for (i = 1; i <= length(line); i++) {
        char = substr(line, i, 1)
        if (in_comment) {
            if (substr(line, i, 2) == "*/") {
                in_comment = 0
                i++
            }
        } else if (substr(line, i, 2) == "/*") {
            in_comment = 1
            i++
        } else if (substr(line, i, 2) == "//") {
            break
        } else if (char == "\"" || char == "'") {
            quote = char
            for (i++; i <= length(line) && substr(line, i, 1) != quote; i++) {
                if (substr(line, i, 1) == "\\") {
                    i++
                }
            }
            code = code quote quote
        } else {
            code = code char
        }
    }
    sub(/[ \t]+$/, "", code)
    return code
}

function exists(path,    line)
{
    return (getline line < path) >= 0
}

function check_include(path, quoted,    folder, i)
{
    if (quoted) {
        folder = path
        if (!sub(/\/.*/, "", folder)) {
            if (FILENAME !~ /\.cu$/ && FILENAME !~ /^tests\//) {
                report(FNR, "includes", "write \"folder/name.h\", not \"" path "\"")
            }
        } else if (top in may_include && index(" " may_include[top] " ", " " folder " ") == 0) {
            report(FNR, "includes", top "/ may not include " folder "/ (it may: " may_include[top] ")")
        }
        return
    }
    for (i = 1; i <= owners; i++) {
        if (path ~ library[i] && FILENAME !~ owner[i] && top in may_include) {
            report(FNR, "libraries", "<" path "> belongs to " owner_text[i])
        }
    }
    if (FILENAME ~ /\.h$/ && path ~ hidden && top in may_include) {
        report(FNR, "libraries", "a header must not show the types of <" path ">")
    }
}

function own(headers, files, text)
{
    owners++
    library[owners] = headers
    owner[owners] = files
    owner_text[owners] = text
}

BEGIN {
    may_include["common"] = "common"
    may_include["tasks"] = "common tasks"
    may_include["server"] = "common tasks server"
    may_include["worker"] = "common tasks worker"
    may_include["client"] = "common client"
    may_include["sim"] = "common sim"

    of_judge_and_rank = "(judge|rank|symm|kernels|arena|check|communicator|grants|multicast|" \
        "record|report|holdings|gpus|meter|rounds|seat|stall)"
    own("^sqlite3\\.h$", "^server/[a-z_0-9]*\\.c$", "server/")
    own("^microhttpd\\.h$", "^server/http[a-z_0-9]*\\.c$", "server/http.c")
    own("^uv\\.h$", "^worker/[a-z_0-9]*\\.c$", "worker/")
    own("^(jansson\\.h|curl/)", "^common/[a-z_0-9]*\\.c$", "common/")
    own("^(cuda|nccl|cublas)", \
        "^(worker/" of_judge_and_rank "[a-z_0-9]*\\.(c|h|cu)|sim/.*|tasks/solution\\.h|tasks/.*\\.cu)$", \
        "the modules of pkb-judge and pkb-rank, sim/ and the baselines")
    hidden = "^(sqlite3|microhttpd|uv|jansson|curl/curl|zstd|sodium|seccomp)\\.h$"

    banned = "(strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|atoll|atof|system|popen|alloca" \
        "|rand|srand|tmpnam|mktemp)"
    banned_in_tests = "(sleep|usleep|nanosleep)"
}

FNR == 1 {
    top = FILENAME
    sub(/\/.*/, "", top)
    if (FILENAME ~ /\.h$/ && $0 !~ /^\/\*/) {
        report(1, "headers", "a header opens with a comment that says what the module is")
    }
    own_header = ""
    if (FILENAME ~ /\.c$/) {
        own_header = FILENAME
        sub(/c$/, "h", own_header)
        if (!exists(own_header)) {
            own_header = ""
        }
    }
}

{
    width = $0
    gsub(/[\200-\277]/, "", width)
    if (length(width) > 100) {
        report(FNR, "sizes", length(width) " columns, at most 100")
    }
    code = code_of($0)
}

/^#[ \t]*pragma once/ { once = 1 }

/^#[ \t]*include[ \t]*["<]/ {
    path = $0
    sub(/^#[ \t]*include[ \t]*/, "", path)
    quoted = path ~ /^"/
    path = substr(path, 2)
    sub(/[">].*/, "", path)
    check_include(path, quoted)
    if (own_header != "" && includes++ == 0 && path != own_header) {
        report(FNR, "includes", "include \"" own_header "\" first")
    }
}

code ~ ("(^|[^A-Za-z0-9_.>])" banned "[ \t]*\\(") { report(FNR, "banned", "banned function: " code) }

top == "tests" && FILENAME ~ /\.[ch]$/ && code ~ ("(^|[^A-Za-z0-9_.>])" banned_in_tests "[ \t]*\\(") {
    report(FNR, "banned", "a test never sleeps: " code)
}

# A function's type cannot be named otherwise; a pointer to it still shows its star.
code ~ /^[ \t]*typedef[ \t]/ && code !~ /^typedef [a-z_ ]+\(struct / {
    report(FNR, "typedefs", "write struct and enum, not typedef")
}

# clang-format puts a function's braces, and nothing else's, at the start of a line of their own.
code == "{" { function_line = FNR }
code ~ /^}/ {
    if (function_line != 0 && FNR - function_line + 1 > 70) {
        report(function_line, "sizes", FNR - function_line + 1 " lines in a function, at most 70")
    }
    function_line = 0
}

END {
    if (FNR > 500) {
        report(FNR, "sizes", FNR " lines in a file, at most 500")
    }
    if (FILENAME ~ /\.h$/ && !once) {
        report(1, "headers", "#pragma once is missing")
    }
}
