-- :checkhealth rulvar
local M = {}

function M.check()
  vim.health.start("rulvar")
  if vim.fn.has("nvim-0.11") == 1 then
    vim.health.ok("Neovim has vim.lsp.enable")
  else
    vim.health.error("Neovim 0.11 or newer is needed for vim.lsp.enable", "see docs/editors/neovim.md for older versions")
  end
  if vim.fn.executable("rulvar-lsp") == 0 then
    vim.health.error("rulvar-lsp is not on PATH", 'pip install "rulvar[lsp]", and start Neovim with that environment active')
    return
  end
  local found = vim.fn.systemlist({ "rulvar-lsp", "--check" })
  local report = vim.v.shell_error == 0 and vim.health.ok or vim.health.error
  report(table.concat(found, "\n"))
  local clients = vim.lsp.get_clients({ name = "rulvar" })
  if #clients == 0 then
    vim.health.info('no server is running: vim.lsp.enable("rulvar"), then open a Python file')
  end
  for _, client in ipairs(clients) do
    local options = client.config.init_options or {}
    vim.health.ok(("attached to %s, %s"):format(client.config.root_dir or "single files", client.offset_encoding))
    if not options.trusted then
      vim.health.info("running tests is off: set init_options.trusted, or :LspRulvarTrust")
    end
  end
end

return M
