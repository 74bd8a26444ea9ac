// A button on each block of code that copies its text. Of a console session, only the commands, without prompts.
"use strict";

const SHOWN_MILLISECONDS = 2000;

function textOf(block) {
  const lines = block.querySelector("pre").innerText.trimEnd().split("\n");
  if (!block.closest(".highlight-console")) return lines.join("\n");
  return lines.filter((line) => /^[$>] /.test(line)).map((line) => line.slice(2)).join("\n");
}

function addButton(block) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(textOf(block));
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed";
    }
    setTimeout(() => { button.textContent = "Copy"; }, SHOWN_MILLISECONDS);
  });
  block.append(button);
}

// Browsers have a clipboard only for pages that came over HTTPS, from this machine, or from a file.
if (navigator.clipboard) document.querySelectorAll("div.highlight").forEach(addButton);
