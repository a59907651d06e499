-- rulvar for Neovim 0.11 and newer: vim.lsp.enable("rulvar")
--
-- Running tests executes code of the project, so it is off until you say otherwise:
--   vim.lsp.config("rulvar", { init_options = { trusted = true } })
-- or, for the session, :LspRulvarTrust

-- Neovim 0.11 does not let a server refresh lenses: they are asked for again wherever they are shown
local function refresh_lenses(client)
  for buffer in pairs(client.attached_buffers) do
    if #vim.lsp.codelens.get(buffer) > 0 then
      vim.lsp.codelens.refresh({ bufnr = buffer })
    end
  end
end

---@type vim.lsp.Config
return {
  cmd = { "rulvar-lsp", "--stdio" },
  filetypes = { "python" },
  root_markers = { "pyproject.toml", "pytest.ini", "setup.cfg", ".git" },
  init_options = { trusted = false },
  settings = { rulvar = vim.empty_dict() },
  on_init = function(client)
    vim.api.nvim_create_autocmd("LspProgress", {
      pattern = "end", -- of a run: its result stands in the lens
      callback = function(event)
        if event.data.client_id == client.id then
          refresh_lenses(client)
        end
      end,
    })
  end,
  on_attach = function(client, bufnr)
    local function command(name, desc, run)
      vim.api.nvim_buf_create_user_command(bufnr, "LspRulvar" .. name, run, { desc = desc })
    end
    local function run(uri)
      vim.cmd("silent! wall")
      client:exec_cmd(
        { title = "Run replay-strict", command = "rulvar.replayStrict", arguments = { { uri = uri } } },
        { bufnr = bufnr }
      )
    end
    command("RunFile", "Run replay-strict on this file", function()
      run(vim.uri_from_bufnr(bufnr))
    end)
    command("RunProject", "Run replay-strict on the whole project", function()
      run(vim.uri_from_fname(client.config.root_dir or vim.fn.getcwd()))
    end)
    command("Cancel", "Cancel running tests", function()
      client:exec_cmd({ title = "Cancel", command = "rulvar.cancelRun", arguments = { vim.empty_dict() } }, { bufnr = bufnr })
    end)
    command("Trust", "Allow running tests until the server stops", function()
      client:notify("rulvar/trust", { trusted = true })
      refresh_lenses(client)
    end)
  end,
}
