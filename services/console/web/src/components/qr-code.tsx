import { encode } from "uqr";
import "./qr-code.css";

/** ISO/IEC 18004 §5.3.8: as many modules around it have to be light. */
const QUIET_ZONE = 4;

interface QrCodeProps {
  readonly label: string;
  readonly text: string;
}

/** A text for a camera to read: dark on light, whatever the theme, as some readers take nothing else. */
export function QrCode({ label, text }: QrCodeProps) {
  const { data, size } = encode(text, { ecc: "M", border: QUIET_ZONE });
  const modules = data.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : "")));
  return (
    <svg class="qr-code" role="img" aria-label={label} viewBox={`0 0 ${size} ${size}`} shape-rendering="crispEdges">
      <rect width={size} height={size} fill="#fff" />
      <path d={modules.join("")} fill="#000" />
    </svg>
  );
}
