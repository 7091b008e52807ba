--[[ Wakes freetrain's daemon when a job ends (docs/admins/wake.md).

Alone:    JobCompType=jobcomp/lua in slurm.conf, and this file as jobcomp.lua beside it.
Chained:  call freetrain_wake() from the script that the site has already.

Nothing that goes wrong in here stops anything, and nothing waits for the daemon. ]]

local WAKE_FILE = "/var/lib/freetrain/wake"

function freetrain_wake()
    pcall(function()
        local file = io.open(WAKE_FILE, "a")
        -- Two statements: in Lua 5.1 write() gives no file, and what is not closed is not written.
        if file then file:write(".") file:close() end
    end)
end

slurm_jobcomp_log_record = slurm_jobcomp_log_record or function() freetrain_wake() return 0 end

return 0
