package api

import (
	"github.com/gofiber/fiber/v2"

	"ajo/internal/idempotency"
)

// The header that makes a request safe to repeat, and the one that marks a stored answer.
const (
	headerIdempotencyKey = "Idempotency-Key"
	headerReplayed       = "Idempotent-Replayed"
)

// once answers a request that may carry an Idempotency-Key: from Redis if the answer is there, else
// by the use case, which stores its answer with its effect and reports whether it returned a stored
// one.
func (e *edge) once(c *fiber.Ctx, do func(idempotency.Request) (idempotency.Answer, bool, error)) error {
	return e.onceOf(c, c.Request().Body(), do)
}

// onceOf is once for a request with a part that may differ in a repeat: asked is the rest, which a
// repeat must have again.
func (e *edge) onceOf(c *fiber.Ctx, asked []byte, do func(idempotency.Request) (idempotency.Answer, bool, error)) error {
	given := c.Get(headerIdempotencyKey)
	if given == "" && len(c.Request().Header.PeekAll(headerIdempotencyKey)) > 0 {
		return idempotency.ErrKey // who sends an empty one believes that a repeat is safe
	}
	key, err := idempotency.NewRequest(caller(c).ID, given, c.Method(), c.Path(), asked)
	if err != nil {
		return err
	}
	if kept := e.Answers.Get(c.UserContext(), key); kept != nil {
		return replay(c, *kept)
	}
	answer, replayed, err := do(key)
	if err != nil {
		return err
	}
	e.Answers.Put(c.UserContext(), key, answer)
	if replayed {
		return replay(c, answer)
	}
	return send(c, answer)
}

func replay(c *fiber.Ctx, a idempotency.Answer) error {
	c.Set(headerReplayed, "true")
	return send(c, a)
}

func send(c *fiber.Ctx, a idempotency.Answer) error {
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Status(a.Status).Send(a.Body)
}
