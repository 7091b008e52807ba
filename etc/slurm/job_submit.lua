--[[ freetrain at the site's door (docs/admins/plug-in.md): a job tagged --comment=freetrain:… becomes, when it is
submitted, a held array of one-node requeueable tasks in freetrain's partition; a wrong tag is answered in its owner's
terminal. Jobs without the tag are not touched. Lua 5.1 to 5.4, nothing else needed.

Alone:    JobSubmitPlugins=lua in slurm.conf, and this file as job_submit.lua beside it.
Chained:  call it from the script that the site has already:

    local freetrain = dofile("/etc/slurm/freetrain.lua")
    freetrain.partition = "scavenge"

    function slurm_job_submit(job, partitions, uid)
        freetrain.wake()
        local answer = freetrain.submit(job)
        if answer ~= slurm.SUCCESS then return answer end
        -- the site's own rules
        return slurm.SUCCESS
    end

    function slurm_job_modify(job, record, partitions, uid)
        return freetrain.modify(job, record)
    end

The keys are made of freetrain/slurm/tags.py; what their values may be is read here as there, to which tests compare
it. ]]

local freetrain = {
    partition = "freetrain", -- as slurm.partition in freetrain.toml
    qos = nil, -- for sites that preempt by QOS
    wake_file = nil, -- as "/var/lib/freetrain/wake": the daemon looks at once when a job is submitted
}

local PREFIX, ANSWER = "freetrain:", " | "

---- Made by python -m freetrain.config, of freetrain/slurm/tags.py and freetrain/core/bounds.py ----------------------

local BOUND = {
    nodes = { least = 1, most = 100000, words = "from 1 to 100000", above = "more than 1 and at most 100000" },
    seconds = { least = 0, most = 1000000000, words = "from 0 to 1e9", above = "more than 0 and at most 1e9" },
    samples = { least = 0, most = 1e+18, words = "from 0 to 1e18", above = "more than 0 and at most 1e18" },
    weight = { least = 0.01, most = 100, words = "from 0.01 to 100", above = "more than 0.01 and at most 100" },
    servers = { least = 1, most = 16, words = "from 1 to 16", above = "more than 1 and at most 16" },
    step = { least = 0, most = 1000000, words = "from 0 to 1e6", above = "more than 0 and at most 1e6" },
    bytes = { least = 0, most = 1e+15, words = "from 0 to 1e15", above = "more than 0 and at most 1e15" },
}
local KEYS = {
    { name = "min", reader = "nodes", only = "training" },
    { name = "max", reader = "nodes" },
    { name = "name", reader = "name" },
    { name = "dir", reader = "path" },
    { name = "weight", reader = "weight" },
    { name = "target", reader = "samples", only = "training" },
    { name = "grow", reader = "seconds", only = "training" },
    { name = "shrink", reader = "seconds", only = "training" },
    { name = "start", reader = "seconds" },
    { name = "curve", reader = "curve" },
    { name = "kind", reader = "kind" },
    { name = "nodes", reader = "range_of_nodes", only = "tasks" },
    { name = "shortest", reader = "seconds", only = "tasks" },
    { name = "save", reader = "period" },
    { name = "boot", reader = "seconds" },
    { name = "notice", reader = "yes" },
    { name = "freeze", reader = "name", only = "tasks" },
    { name = "speed", reader = "speeds", only = "training" },
    { name = "servers", reader = "servers", only = "training" },
    { name = "step", reader = "step", only = "training" },
    { name = "cache", reader = "megabytes", only = "training" },
    { name = "gradients", reader = "gradients", only = "training" },
    { name = "mixed", reader = "yes", only = "training" },
    { name = "deadline", reader = "time", only = "training" },
}

---- Written by hand again -----------------------------------------------------------------------------------------

---- Words for a terminal ------------------------------------------------------------------------------------------

-- One printable byte for each character.
local function plain(text)
    return (text:gsub("[\194-\244][\128-\191]*", "?"):gsub("[^\32-\126]", "?"))
end

local function shown(text)
    local all = plain(text)
    local clean = all:sub(1, 40):gsub("['\"`$\\|]", "?")
    return #all > 40 and clean .. "…" or clean
end

-- How many characters two words have in common, longest run first, as Python's difflib counts them.
local function common(a, b)
    local most, in_a, in_b = 0, 0, 0
    for i = 1, #a do
        for j = 1, #b do
            local run = 0
            while i + run <= #a and j + run <= #b and a:byte(i + run) == b:byte(j + run) do run = run + 1 end
            if run > most then most, in_a, in_b = run, i, j end
        end
    end
    if most == 0 then return 0 end
    return most + common(a:sub(1, in_a - 1), b:sub(1, in_b - 1)) + common(a:sub(in_a + most), b:sub(in_b + most))
end

---- Readers of values, named as in KEYS: each gives a value, or nil and the end of a sentence ----------------------

local read = {}

function read.nodes(text)
    local count = #text <= 6 and text:match("^[0-9]+$") and tonumber(text)
    if count and count >= 1 and count <= BOUND.nodes.most then return count end
    return nil, "is not a number of nodes " .. BOUND.nodes.words
end

function read.range_of_nodes(text)
    local least, dash, most = text:match("^([^-]*)(-?)(.*)$")
    local fewest, why = read.nodes(least)
    if not fewest then return nil, why end
    local largest = fewest
    if dash ~= "" then largest, why = read.nodes(most) end
    if not largest then return nil, why end
    if fewest > largest then return nil, "has a minimum above its maximum" end
    return { fewest, largest }
end

-- A number within a bound; above the least if that itself is not allowed.
local function number(text, bound, is_open)
    local whole, rest = text:match("^([0-9]+)(.*)$")
    local fraction, power = (rest or ""):match("^%.([0-9]+)(.*)$")
    rest = power or rest
    local fits = whole and #whole <= 15 and #(fraction or "") <= 6 and (rest == "" or rest:match("^e[0-9][0-9]?$"))
    if not fits then return nil, "is not a number" end
    local value = tonumber(text)
    if value >= bound.least and value <= bound.most and not (is_open and value == bound.least) then return value end
    return nil, "must be " .. (is_open and bound.above or bound.words)
end

function read.seconds(text) return number(text, BOUND.seconds) end

function read.period(text) return number(text, BOUND.seconds, true) end

function read.samples(text) return number(text, BOUND.samples, true) end

function read.weight(text) return number(text, BOUND.weight) end

function read.name(text)
    if #text <= 64 and text:match("^[A-Za-z0-9._%-]+$") then return text end
    return nil, "may have letters, digits and . _ - only, 64 at most"
end

function read.path(text)
    local climbs = (text .. "/"):find("/../", 1, true)
    if #text <= 401 and text:match("^/[A-Za-z0-9._/+@:%-]*$") and not climbs then return text end
    return nil, "must be an absolute path of letters, digits and . _ / + @ : -"
end

function read.curve(text)
    local points, sizes, ascending = {}, {}, true
    for point in (text .. "/"):gmatch("([^/]*)/") do
        local on, rate = point:match("^([^:]*):?(.*)$")
        local count, no_count = read.nodes(on)
        if not count then return nil, no_count end
        local speed, no_speed = read.samples(rate)
        if not speed then return nil, no_speed end
        ascending = ascending and (#sizes == 0 or count > sizes[#sizes])
        points[#points + 1], sizes[#sizes + 1] = { count, speed }, count
    end
    if ascending then return points end
    return nil, "throughput points must be in ascending order of nodes, got [" .. table.concat(sizes, ", ") .. "]"
end

function read.speeds(text)
    local found, seen, twice = {}, {}, false
    for pair in (text .. "/"):gmatch("([^/]*)/") do
        local word, speed = pair:match("^([^:]*):?(.*)$")
        local known, no_name = read.name(word)
        if not known then return nil, no_name end
        local value, no_speed = read.weight(speed)
        if not value then return nil, no_speed end
        twice, seen[word] = twice or seen[word], true
        found[#found + 1] = { word, value }
    end
    if twice then return nil, "names something twice" end
    return found
end

function read.servers(text)
    local count = #text <= 3 and text:match("^[0-9]+$") and tonumber(text)
    if count and count >= 1 and count <= BOUND.servers.most then return count end
    return nil, "is not a number of servers " .. BOUND.servers.words
end

function read.step(text)
    local found = {}
    for part in (text .. "/"):gmatch("([^/]*)/") do found[#found + 1] = part end
    if #found ~= 5 then return nil, "must be five numbers, as 'freetrain curve' prints them" end
    for place, part in ipairs(found) do
        local value, why = number(part, BOUND.step)
        if not value then return nil, why end
        found[place] = value
    end
    return found
end

function read.megabytes(text)
    local count = #text <= 8 and text:match("^[0-9]+$") and tonumber(text)
    if count and count > 0 then return count end
    return nil, "is not a number of megabytes"
end

-- Bytes for each sample, from megabytes and samples of a step.
function read.gradients(text)
    local size, slash, of = text:match("^([^/]*)(/?)(.*)$")
    if slash == "" then return nil, "must be megabytes and samples, as 98/192" end
    local sent, no_size = read.samples(size)
    if not sent then return nil, no_size end
    local count, no_count = read.samples(of)
    if not count then return nil, no_count end
    local bytes = 1e6 * sent / count
    if bytes <= BOUND.bytes.most then return bytes end
    return nil, ("is more than %g bytes for each sample"):format(BOUND.bytes.most)
end

function read.kind(text)
    if text == "training" or text == "tasks" then return text end
    return nil, "is neither training nor tasks"
end

-- A time that there is, or a span.
function read.time(text)
    local year, month, day, hour, minute = text:match("^(20%d%d)%-(%d%d)%-(%d%d)T(%d%d):(%d%d)$")
    if year then
        year, month, day = tonumber(year), tonumber(month), tonumber(day)
        local is_leap = year % 4 == 0 and (year % 100 ~= 0 or year % 400 == 0)
        local days = ({ 31, is_leap and 29 or 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 })[month] or 0
        if day >= 1 and day <= days and tonumber(hour) < 24 and tonumber(minute) < 60 then return text end
    elseif text:match("^[1-9]%d?%d?%d?%d?[mhd]$") then
        return text
    end
    return nil, "is neither a time, as 2026-12-01T08:00, nor how long after its submission, as 90m, 12h, 3d"
end

function read.yes(text)
    if text == "yes" or text == "no" then return text end
    return nil, "is neither yes nor no"
end

local KEY = {}
for _, key in ipairs(KEYS) do KEY[key.name] = key end

local function unknown(word)
    local nearest, best = nil, 0.6
    local names = {}
    for place, key in ipairs(KEYS) do
        local short = plain(word):sub(1, 40)
        local likeness = 2 * common(key.name, short) / (#key.name + #short)
        if likeness > best or likeness == best and (not nearest or key.name > nearest) then
            nearest, best = key.name, likeness
        end
        names[place] = key.name
    end
    local hint = nearest and "did you mean " .. nearest .. "?" or "there are " .. table.concat(names, ", ")
    return "there is no key " .. shown(word) .. "; " .. hint
end

local function is_tag(comment) return type(comment) == "string" and comment:sub(1, #PREFIX) == PREFIX end

-- The tag without its prefix and without answers to it, and the answers.
local function split(comment)
    local from = comment:find(ANSWER, 1, true) or #comment + 1
    local text = comment:sub(#PREFIX + 1, from - 1):gsub("^[ \t\r\n]+", "")
    return text:match("^.*[^ \t\r\n]") or "", comment:sub(from)
end

-- The values of a tag; nil and a sentence where it is wrong.
function freetrain.parse(comment)
    local values = {}
    for item in (split(comment) .. ","):gmatch("([^,]+),") do
        local key, equals, text = item:match("^([^=]*)(=?)(.*)$")
        if not KEY[key] then return nil, unknown(key) end
        if equals == "" or text == "" then return nil, key .. " has no value: write " .. key .. "=…" end
        if values[key] then return nil, key .. " is given twice" end
        local value, why = read[KEY[key].reader](text)
        if value == nil then return nil, key .. "=" .. shown(text) .. " " .. why end
        values[key] = value
    end
    for _, key in ipairs(KEYS) do
        if values[key.name] and key.only and key.only ~= (values.kind or "training") then
            return nil, ("%s is for kind=%s only"):format(key.name, key.only)
        end
    end
    if values.curve and values.kind == "tasks" and not values.nodes then
        return nil, "curve is for kind=training, and for tasks with nodes=2-8"
    end
    if values.max and values.nodes and values.nodes[1] > values.max then
        return nil, ("nodes=%d of each task is more than max=%d"):format(values.nodes[1], values.max)
    end
    local least = values.min or 1
    if values.max and least > values.max then
        return nil, ("min=%d is more than max=%d"):format(least, values.max)
    end
    if values.deadline and not values.target then
        return nil, "deadline needs target=…: without it nobody knows how much is left to do"
    end
    return values
end

---- Jobs: each function returns nil, or the sentence with which the job is refused ----------------------------------

local function given(value, none) return value ~= nil and value ~= none end

-- What was asked for all nodes together becomes what one of them needs.
local function one_node(job)
    local count = job.min_nodes
    if given(count, slurm.NO_VAL) and count > 1 then
        if job.tres_per_job then return "--gpus counts for all nodes together: write --gpus-per-node" end
        if given(job.num_tasks, slurm.NO_VAL) then
            if not given(job.ntasks_per_node, slurm.NO_VAL16) then
                return "--ntasks counts for all nodes together: write --ntasks-per-node"
            end
            job.num_tasks = job.ntasks_per_node
        end
        if given(job.min_cpus, slurm.NO_VAL) then job.min_cpus = math.ceil(job.min_cpus / count) end
    end
    job.min_nodes, job.max_nodes = 1, 1
end

-- A job of -N 2-16 says min and max as well as a tag does; the daemon reads the tag.
local function into_array(job, tag)
    local least = given(job.min_nodes, slurm.NO_VAL) and job.min_nodes or nil
    local most = given(job.max_nodes, slurm.NO_VAL) and job.max_nodes or least
    local size = tag.max or most
    if not size then return "how many nodes can it use? Write max=… into the tag, or -N 2-16" end
    if (tag.min or 1) > size then return ("min=%d is more than its %d nodes"):format(tag.min, size) end
    if not tag.min and least and least < most then
        local text, answers = split(job.comment)
        job.comment = ("%s%s%smin=%d%s"):format(PREFIX, text, text == "" and "" or ",", least, answers)
        local _, why = freetrain.parse(job.comment)
        if why then return why end
    end
    job.array_inx = ("0-%d"):format(size - 1)
    return one_node(job)
end

local function convert(job)
    local tag, why = freetrain.parse(job.comment)
    if not tag then return why end
    if not job.script then return "only a batch script can be a trainer: use sbatch" end
    if not job.array_inx and tag.kind == "tasks" then
        why = "kind=tasks is for arrays: write --array=0-99"
    elseif not job.array_inx then
        why = into_array(job, tag)
    elseif tag.nodes then
        why = one_node(job)
    elseif given(job.max_nodes, slurm.NO_VAL) and job.max_nodes > 1 then
        why = "each task of a trainer's array has one node: write -N1"
    end
    if why then return why end
    job.partition, job.requeue, job.priority = freetrain.partition, 1, 0 -- priority 0: held
    job.shared = 0 -- as --exclusive: whole nodes, in partitions that share them, too
    if freetrain.qos then job.qos = freetrain.qos end
    local what = tag.nodes and "tasks" or "one-node tasks"
    slurm.log_user("%s", ("freetrain: array %s of %s in partition %s, held until nodes are idle"):format(
        job.array_inx, what, freetrain.partition))
end

local function check_change(job)
    local _, why = freetrain.parse(job.comment)
    return why
end

-- Nothing that goes wrong in here may stop a job that is not freetrain's.
local function answer(is_ours, decide, job, record)
    local sure, ours = pcall(is_ours, job, record)
    if not (sure and ours) then return slurm.SUCCESS end
    local done, why = pcall(decide, job)
    if not done then
        slurm.log_error("%s", "freetrain: " .. plain(tostring(why)))
        why = "its plug-in failed on this job; please tell the admins, its log says why"
    end
    if not why then return slurm.SUCCESS end
    slurm.log_user("%s", "freetrain: " .. why)
    return slurm.ERROR
end

function freetrain.submit(job)
    return answer(function() return is_tag(job.comment) end, convert, job)
end

-- An answer that the daemon writes behind a wrong tag is no change of the tag.
function freetrain.modify(job, record)
    return answer(function()
        return is_tag(job.comment) and not (is_tag(record.comment) and split(record.comment) == split(job.comment))
    end, check_change, job)
end

-- A byte for the daemon, for every job of the site's; whatever comes of it, the submission goes on.
function freetrain.wake()
    pcall(function()
        local file = freetrain.wake_file and io.open(freetrain.wake_file, "a")
        -- Two statements: in Lua 5.1 write() gives no file, and what is not closed is not written.
        if file then file:write(".") file:close() end
    end)
end

slurm_job_submit = slurm_job_submit or function(job) freetrain.wake() return freetrain.submit(job) end
slurm_job_modify = slurm_job_modify or function(job, record) return freetrain.modify(job, record) end

return freetrain
