package totp

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"

	"github.com/boombuler/barcode/qr"
)

// A module of a QR code is moduleSize pixels wide; quietZone are the empty ones around all, as
// many as ISO 18004 asks for.
const (
	moduleSize = 4
	quietZone  = 4
)

// qrCode draws a text as a QR code and returns the picture, a PNG, as a data URL.
func qrCode(text string) (string, error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return "", fmt.Errorf("QR code: %w", err)
	}
	width := code.Bounds().Dx()
	side := (width + 2*quietZone) * moduleSize
	picture := image.NewPaletted(image.Rect(0, 0, side, side), color.Palette{color.White, color.Black})
	for y := range side {
		for x := range side {
			p := image.Pt(x/moduleSize-quietZone, y/moduleSize-quietZone)
			if p.In(code.Bounds()) && color.GrayModel.Convert(code.At(p.X, p.Y)) == (color.Gray{}) {
				picture.SetColorIndex(x, y, 1)
			}
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		return "", fmt.Errorf("QR code: %w", err)
	}
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes()), nil
}
