// Light or dark: the system's choice, or the reader's. theme.js applies it before the first frame.

import { createContext } from "preact";
import { useEffect, useState } from "preact/hooks";

export type Choice = "system" | "light" | "dark";
export type Theme = "light" | "dark";

export const ThemeContext = createContext<Theme>("light");

const KEY = "walras-theme";

function stored(): Choice {
  const value = document.documentElement.dataset["theme"];
  return value === "light" || value === "dark" ? value : "system";
}

function store(choice: Choice): void {
  if (choice === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = choice;
  try {
    if (choice === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, choice);
  } catch {
    // Without storage, the choice lasts until the page is left.
  }
}

export function useTheme(): [Theme, Choice, (choice: Choice) => void] {
  const [choice, setChoice] = useState(stored);
  const [dark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const media = matchMedia("(prefers-color-scheme: dark)");
    const change = () => setDark(media.matches);
    media.addEventListener("change", change);
    return () => media.removeEventListener("change", change);
  }, []);
  const theme = choice === "system" ? (dark ? "dark" : "light") : choice;
  return [
    theme,
    choice,
    (next) => {
      store(next);
      setChoice(next);
    },
  ];
}

const NAMES: [Choice, string, string][] = [
  ["system", "◐", "Colours of the system"],
  ["light", "☀", "Light"],
  ["dark", "☾", "Dark"],
];

export function ThemeSwitch({
  choice,
  onChoice,
}: {
  choice: Choice;
  onChoice: (choice: Choice) => void;
}) {
  return (
    <fieldset class="themes">
      <legend class="hidden">Colours</legend>
      {NAMES.map(([value, mark, name]) => (
        <label key={value} title={name} class={choice === value ? "theme theme-chosen" : "theme"}>
          <input
            type="radio"
            class="hidden"
            name="theme"
            value={value}
            checked={choice === value}
            onChange={() => onChoice(value)}
          />
          <span aria-hidden="true">{mark}</span>
          <span class="hidden">{name}</span>
        </label>
      ))}
    </fieldset>
  );
}
