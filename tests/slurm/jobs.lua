-- What job_submit.lua does to jobs, with a stub of Slurm: lua jobs.lua JOB_SUBMIT CASE.
-- CASE is a Lua chunk that is given freetrain and returns the answer and the job; they are printed, with what is told.

slurm = { SUCCESS = 0, ERROR = -1, NO_VAL = 4294967294, NO_VAL16 = 65534 }
local function say(kind)
    return function(...) print(kind .. " " .. string.format(...)) end
end
slurm.log_user, slurm.log_error = say("user"), say("error")

local freetrain = dofile(arg[1])

-- As sbatch fills it in.
function job(changes)
    local made = {
        script = "#!/bin/sh\n", min_nodes = slurm.NO_VAL, max_nodes = slurm.NO_VAL, num_tasks = slurm.NO_VAL,
        ntasks_per_node = slurm.NO_VAL16, min_cpus = 1, requeue = slurm.NO_VAL16, priority = slurm.NO_VAL,
    }
    for key, value in pairs(changes) do made[key] = value end
    return made
end

local case = assert(loadfile(arg[2]))
local answer, made = case(freetrain)
print("answer " .. ("%d"):format(answer))
for key, value in pairs(made or {}) do
    print(key .. "=" .. (type(value) == "number" and ("%d"):format(value) or tostring(value)))
end
