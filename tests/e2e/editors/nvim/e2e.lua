-- Drives a real Neovim through everything a user of the server does; prints one JSON line with what was seen.
-- RULVAR_DOCS is docs/editors (its snippets are what runs here), RULVAR_FILE and RULVAR_TEST are files of the project.
local out = { ok = {}, ms = {} }
local began = vim.uv.hrtime()

local function step(name, condition, timeout)
  local start = vim.uv.hrtime()
  out.ok[name] = vim.wait(timeout or 10000, condition, 10)
  out.ms[name] = math.floor((vim.uv.hrtime() - start) / 1e6)
  return out.ok[name]
end

-- the Lua blocks of the page, by the order they stand in
local function page_blocks()
  local text = table.concat(vim.fn.readfile(vim.env.RULVAR_DOCS .. "/neovim.md"), "\n") .. "\n"
  local blocks = {}
  for block in text:gmatch("```lua\n(.-)```") do
    table.insert(blocks, block)
  end
  return blocks
end

local messages, progress = {}, {}
vim.lsp.handlers["window/showMessage"] = function(_, result)
  table.insert(messages, result.message)
end
vim.api.nvim_create_autocmd("LspProgress", {
  callback = function(event)
    table.insert(progress, event.data.params.value.kind)
  end,
})

vim.opt.runtimepath:append(vim.env.RULVAR_DOCS .. "/nvim")
vim.g.loaded_python3_provider = 0
vim.cmd("filetype plugin on")
local blocks = page_blocks()
local enable, text, attach = blocks[1], blocks[2], blocks[3]
assert(enable:find("vim.lsp.enable", 1, true) and attach:find("LspAttach", 1, true))
assert(load(enable))()
assert(load(text))()
assert(load(attach))()
if vim.env.RULVAR_PYTHON then
  vim.lsp.config("rulvar", { settings = { rulvar = { interpreter = vim.env.RULVAR_PYTHON } } })
end

vim.cmd.edit(vim.env.RULVAR_FILE)
local flow = vim.api.nvim_get_current_buf()
local client
step("attach", function()
  client = vim.lsp.get_clients({ bufnr = flow, name = "rulvar" })[1]
  return client ~= nil and client.initialized
end)
out.encoding = client.offset_encoding

local function codes(buffer)
  local found = vim.tbl_map(function(d) return d.code end, vim.diagnostic.get(buffer))
  table.sort(found)
  return found
end
local function has(buffer, code)
  return vim.tbl_contains(codes(buffer), code)
end
local function hints()
  local found = vim.tbl_map(function(h) return h.inlay_hint.label end, vim.lsp.inlay_hint.get({ bufnr = flow }))
  return table.concat(found, "|")
end

step("diagnostics", function() return has(flow, "RLV101") end)
for _, d in ipairs(vim.diagnostic.get(flow)) do
  if d.code == "RLV101" then out.clock = { d.lnum, d.col, d.end_col, d.message } end
end

-- the quick fix, applied to the buffer
vim.api.nvim_win_set_cursor(0, { out.clock[1] + 1, out.clock[2] + 1 })
vim.lsp.buf.code_action({
  apply = true,
  filter = function(action) return action.kind == "quickfix" and not action.title:find("Ignore") end,
})
step("quickfix", function()
  return vim.api.nvim_buf_get_lines(flow, out.clock[1], out.clock[1] + 1, false)[1]:find("ctx.now()", 1, true) ~= nil
end)
out.fixed = vim.api.nvim_buf_get_lines(flow, out.clock[1], out.clock[1] + 1, false)[1]
step("diagnostic_gone", function() return not has(flow, "RLV101") end)
vim.cmd("silent write")

-- run: refused first, then trusted
vim.cmd.edit(vim.env.RULVAR_TEST)
local tests = vim.api.nvim_get_current_buf()
step("lenses", function() return #vim.lsp.codelens.get(tests) >= 2 end)
out.lenses = vim.tbl_map(function(l) return l.command.title end, vim.lsp.codelens.get(tests))
local function act()
  vim.api.nvim_win_set_cursor(0, { 9, 12 })
  vim.lsp.buf.code_action({ apply = true, filter = function(action) return action.kind == "test" end })
end
act()
step("refused", function()
  return messages[1] ~= nil and messages[1]:find("not trusted", 1, true) ~= nil
end)
local function offers(buffer, title)
  return vim.iter(vim.lsp.codelens.get(buffer)):any(function(l) return l.command.title == title end)
end
-- recording is offered as soon as it is trusted, in every buffer
vim.cmd.edit((vim.env.RULVAR_TEST:gsub("test_flow%.py$", "test_static.py")))
local recorded = vim.api.nvim_get_current_buf()
step("lenses_untrusted", function() return offers(recorded, "Run replay-strict") end)
out.ok.no_record = not offers(recorded, "Record")
vim.cmd.buffer(tests)
vim.cmd("LspRulvarTrust")
step("record", function() return offers(recorded, "Record") end)
act()
step("ran", function()
  return messages[#messages]:find("replay-strict test_edited: failed", 1, true) ~= nil
end, 30000)
step("progress", function()
  return progress[1] == "begin" and progress[#progress] == "end"
end)
step("failed_test", function() return has(tests, "replay-failed") end)
step("lens_result", function() return offers(tests, "failed: 1 hit, 1 miss") end)

-- its result beside the calls
vim.cmd.buffer(flow)
step("hints", function() return hints() == "hit 6845ea #0|miss 2eaccc" end)
out.hints = hints()
step("miss", function() return has(flow, "replay-miss") end)
for _, d in ipairs(vim.diagnostic.get(flow)) do
  if d.code == "replay-miss" then out.miss = d.message end
end
local response = client:request_sync("textDocument/hover", {
  textDocument = vim.lsp.util.make_text_document_params(flow),
  position = { line = 10, character = 12 },
}, 4000, flow)
out.hover = response and response.result and response.result.contents.value

-- an edit makes it stale
vim.api.nvim_buf_set_lines(flow, 10, 11, false, { '        f"Write a short answer to a {kind} ticket",' })
step("stale", function() return hints() == "hit 6845ea #0|stale: miss 2eaccc" end)
step("miss_gone", function() return not has(flow, "replay-miss") end)

-- what calls will be served, before anything of this file has run
vim.cmd.edit((vim.env.RULVAR_FILE:gsub("flow%.py$", "static.py")))
flow = vim.api.nvim_get_current_buf()
step("forecast", function() return hints() == "will hit row 2|will miss" end)

vim.cmd("checkhealth rulvar")
out.health = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n")
out.ok.health = out.health:find("ERROR", 1, true) == nil and out.health:find("ready", 1, true) ~= nil

client:stop()
step("stopped", function() return client:is_stopped() end)
out.messages, out.progress = messages, progress
out.total_ms = math.floor((vim.uv.hrtime() - began) / 1e6)
io.stdout:write(vim.json.encode(out) .. "\n")
vim.cmd("qa!")
