-- What job_submit.lua makes of tags: lua tags.lua JOB_SUBMIT TAGS, one tag in hexadecimal per line.
-- Prints, in hexadecimal, a wrong tag's sentence, or the values: key=value lines, a curve as nodes:rate/…, speeds likewise, a range as 2/8,
-- a step as A/B/….

local freetrain = dofile(arg[1])

local function hex(text)
    return (text:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end))
end

local function written(value)
    if type(value) == "table" then
        local points = {}
        for _, point in ipairs(value) do
            local one = type(point) == "number" and ("%.17g"):format(point)
            points[#points + 1] = one or ("%s:%.17g"):format(point[1], point[2])
        end
        return table.concat(points, "/")
    end
    return type(value) == "number" and ("%.17g"):format(value) or value
end

for line in io.lines(arg[2]) do
    local tag = line:gsub("%x%x", function(digits) return string.char(tonumber(digits, 16)) end)
    local values, why = freetrain.parse(tag)
    if values then
        local said = {}
        for key, value in pairs(values) do said[#said + 1] = key .. "=" .. written(value) end
        print("right " .. hex(table.concat(said, "\n")))
    else
        print("wrong " .. hex(why))
    end
end
